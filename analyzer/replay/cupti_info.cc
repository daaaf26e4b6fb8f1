// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/cupti_info.h"

#include "gpumem/trace.pb.h"

namespace gpumem {

CuptiInfo ToInfo(const trace::Cupti& cupti) {
  CuptiInfo info;
  info.asked = true;
  info.state = cupti.state();
  info.library = cupti.library();
  info.version = cupti.version();
  info.error = cupti.error();
  info.began_ns = cupti.began_ns();
  info.complete_until_ns = cupti.complete_until_ns();
  info.dropped_records = cupti.dropped_records();
  info.lost_records = cupti.lost_records();
  info.unknown_records = cupti.unknown_records();
  return info;
}

}  // namespace gpumem
