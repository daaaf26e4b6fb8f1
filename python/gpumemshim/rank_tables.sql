-- SPDX-License-Identifier: Apache-2.0
-- SPDX-FileCopyrightText: The gpumemshim authors
--
-- What `gpumemshim ranks` says, as SQL that DuckDB, ClickHouse and Spark take alike, over the tables of `gpumemshim export parquet`. Parts become tables, in this
-- order, each from those before it; answers are queries over them. rank_tables.py runs it, and prints it for an engine: python -m gpumemshim.rank_tables.
--
-- What makes it portable: no integer division (floor of a double is exact here), no list types, no correlated subquery, doubles as 2e-2, frames of windows
-- written out, no alias with the name of a column that is aggregated. The rules are those of docs/commands/ranks.md; analyzer/answers/ranks/judge.cc has them in C++.
--
-- slot: a step of the job, or several in a row in runs of more than 512 steps; -1: the peaks of the runs; -2: all CUDA memory at the peaks of the runs.

-- part job_ranks: ranks that are there, each once.
SELECT rank, trace, device, model_part, CASE WHEN measure = 'allocated' THEN 0 ELSE 1 END AS by_total,
       CASE WHEN state = 'damaged' THEN 1 ELSE 0 END AS is_damaged, steps AS complete_steps, last_step, step_width,
       peak_allocated, peak_total, context, oom_unix_ns, CASE WHEN summary_only THEN 0 ELSE 1 END AS keeps_trace
FROM ranks WHERE state IN ('present', 'damaged');

-- part job: one row.
SELECT count(*) AS job_ranks, max(step_width) AS width, max(last_step) AS job_last_step,
       max(CASE WHEN device IS NOT NULL THEN by_total ELSE 0 END) AS job_by_total
FROM job_ranks;

-- part rank_slots: the highest step of each rank in each slot.
SELECT rank, model_part, slot, step, bytes
FROM (SELECT r.rank AS rank, r.model_part AS model_part, CAST(floor(s.step / j.width) AS BIGINT) AS slot, s.step AS step,
             CASE WHEN j.job_by_total = 1 THEN s.peak_total ELSE s.peak_allocated END AS bytes,
             row_number() OVER (PARTITION BY r.rank, floor(s.step / j.width)
                                ORDER BY CASE WHEN r.by_total = 1 THEN s.peak_total ELSE s.peak_allocated END DESC, s.step) AS place
      FROM steps s JOIN job_ranks r ON s.trace = r.trace CROSS JOIN job j
      WHERE s.complete) numbered
WHERE place = 1;

-- part compared_ranks: those whose steps limit the choice: not damaged, and at least half as many steps as the median rank.
SELECT r.rank AS rank
FROM job_ranks r
CROSS JOIN (SELECT o.complete_steps AS median_steps
            FROM (SELECT complete_steps, row_number() OVER (ORDER BY complete_steps, rank) AS place FROM job_ranks) o CROSS JOIN job j
            WHERE o.place = CAST(floor(j.job_ranks / 2) AS BIGINT) + 1) m
WHERE m.median_steps > 0 AND r.is_damaged = 0 AND r.complete_steps * 2 >= m.median_steps;

-- part common_slots: slots that all of these completed.
SELECT slot, row_number() OVER (ORDER BY slot) AS place
FROM (SELECT s.slot AS slot, count(*) AS present FROM rank_slots s JOIN compared_ranks c ON s.rank = c.rank GROUP BY s.slot) counted
CROSS JOIN (SELECT count(*) AS taken FROM compared_ranks) c
WHERE present = taken;

-- part later_slots: the later half of them.
SELECT slot FROM common_slots CROSS JOIN (SELECT count(*) AS slots FROM common_slots) c WHERE place > floor(slots / 2);

-- part candidates: what may be compared.
SELECT s.slot AS slot, s.rank AS rank, s.model_part AS model_part, s.step AS step, s.bytes AS bytes
FROM rank_slots s JOIN common_slots c ON s.slot = c.slot
UNION ALL
SELECT -1 AS slot, r.rank, r.model_part, -1 AS step, CASE WHEN j.job_by_total = 1 THEN r.peak_total + r.context ELSE r.peak_allocated END AS bytes
FROM job_ranks r CROSS JOIN job j WHERE r.device IS NOT NULL
UNION ALL
SELECT -2 AS slot, r.rank, r.model_part, -1 AS step, r.peak_total + r.context AS bytes
FROM job_ranks r CROSS JOIN job j WHERE r.device IS NOT NULL AND j.job_by_total = 0;

-- part all_medians: the median rank of each slot, the lower one of two in the middle.
SELECT slot, rank AS median_rank, model_part AS median_part, bytes AS median_bytes
FROM (SELECT slot, rank, model_part, bytes, row_number() OVER (PARTITION BY slot ORDER BY bytes, rank) AS place,
             count(*) OVER (PARTITION BY slot) AS members FROM candidates) numbered
WHERE place = floor((members + 1) / 2);

-- part tolerances: what counts as equal, by the median of the ranks with the same part of the model, and by that of all.
SELECT basis, slot, model_part,
       CASE WHEN slot = -2 THEN greatest(33554432, CAST(floor(1e-1 * CAST(median AS DOUBLE)) AS BIGINT))
            ELSE CAST(floor(2e-2 * CAST(median AS DOUBLE)) AS BIGINT) END AS tolerance
FROM (SELECT 'part' AS basis, slot, model_part, bytes AS median
      FROM (SELECT slot, model_part, bytes, row_number() OVER (PARTITION BY slot, model_part ORDER BY bytes, rank) AS place,
                   count(*) OVER (PARTITION BY slot, model_part) AS members FROM candidates) numbered
      WHERE place = floor((members + 1) / 2)
      UNION ALL
      SELECT 'all' AS basis, c.slot, c.model_part, max(m.median_bytes) AS median
      FROM candidates c JOIN all_medians m ON c.slot = m.slot GROUP BY c.slot, c.model_part) medians;

-- part gaps: where the next value is further away than that.
SELECT t.basis AS basis, c.slot AS slot, c.model_part AS model_part, c.rank AS rank, c.step AS step, c.bytes AS bytes, t.tolerance AS tolerance,
       CASE WHEN c.bytes - max(c.bytes) OVER (PARTITION BY t.basis, c.slot, c.model_part ORDER BY c.bytes, c.rank
                                              ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) > t.tolerance THEN 1 ELSE 0 END AS begins
FROM candidates c JOIN tolerances t ON c.slot = t.slot AND c.model_part = t.model_part;

-- part runs: values without such a gap.
SELECT basis, slot, model_part, rank, step, bytes, tolerance,
       sum(begins) OVER (PARTITION BY basis, slot, model_part ORDER BY bytes, rank ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
FROM gaps;

-- part pieces: what is further than that from the median of its run is a cluster of its own.
SELECT r.basis AS basis, r.slot AS slot, r.model_part AS model_part, r.rank AS rank, r.step AS step, r.bytes AS bytes, r.tolerance AS tolerance,
       r.run * 3 + CASE WHEN r.bytes + r.tolerance < m.median THEN 0 WHEN r.bytes > m.median + r.tolerance THEN 2 ELSE 1 END AS cluster_number
FROM runs r
JOIN (SELECT basis, slot, model_part, run, bytes AS median
      FROM (SELECT basis, slot, model_part, run, bytes, row_number() OVER (PARTITION BY basis, slot, model_part, run ORDER BY bytes, rank) AS place,
                   count(*) OVER (PARTITION BY basis, slot, model_part, run) AS members FROM runs) numbered
      WHERE place = floor((members + 1) / 2)) m
ON r.basis = m.basis AND r.slot = m.slot AND r.model_part = m.model_part AND r.run = m.run;

-- part mains: the largest cluster of each group, of equally large ones that with the smallest values.
SELECT basis, slot, model_part, cluster_number, tolerance, rank AS main_rank, step AS main_step, bytes AS main_bytes
FROM (SELECT basis, slot, model_part, cluster_number, tolerance, rank, step, bytes,
             row_number() OVER (PARTITION BY basis, slot, model_part ORDER BY members DESC, cluster_number) AS size_place
      FROM (SELECT basis, slot, model_part, cluster_number, tolerance, rank, step, bytes,
                   row_number() OVER (PARTITION BY basis, slot, model_part, cluster_number ORDER BY bytes, rank) AS place,
                   count(*) OVER (PARTITION BY basis, slot, model_part, cluster_number) AS members FROM pieces) numbered
      WHERE place = floor((members + 1) / 2)) medians
WHERE size_place = 1;

-- part unlike: ranks outside of it, among those with the same part of the model.
SELECT p.slot AS slot, p.model_part AS model_part, p.cluster_number AS cluster_number, p.rank AS rank, p.step AS step, p.bytes AS bytes, m.main_bytes AS main_bytes
FROM pieces p JOIN mains m ON p.basis = m.basis AND p.slot = m.slot AND p.model_part = m.model_part
WHERE p.basis = 'part' AND p.cluster_number <> m.cluster_number;

-- part directions: ranks that hold more (1) or less (-1) in most of the later slots.
SELECT rank, CASE WHEN less * 2 > slots THEN -1 ELSE 1 END AS direction
FROM (SELECT u.rank AS rank, sum(CASE WHEN u.bytes > u.main_bytes THEN 1 ELSE 0 END) AS more, sum(CASE WHEN u.bytes > u.main_bytes THEN 0 ELSE 1 END) AS less
      FROM unlike u JOIN later_slots l ON u.slot = l.slot GROUP BY u.rank) counted
CROSS JOIN (SELECT count(*) AS slots FROM later_slots) c
WHERE more * 2 > slots OR less * 2 > slots;

-- part strongest: the slot in which one of these is furthest from the others.
SELECT slot
FROM (SELECT u.slot AS slot, (u.bytes - u.main_bytes) * d.direction AS excess
      FROM unlike u JOIN later_slots l ON u.slot = l.slot JOIN directions d ON u.rank = d.rank) excesses
WHERE excess > 0 ORDER BY excess DESC, slot DESC LIMIT 1;

-- part highest: the slot with the highest peak, of equal ones the last.
SELECT slot
FROM (SELECT c.slot AS slot, max(c.bytes) AS most FROM candidates c JOIN later_slots l ON c.slot = l.slot GROUP BY c.slot) peaks
ORDER BY most DESC, slot DESC LIMIT 1;

-- part first_oom: the rank that ran out of memory first.
SELECT rank FROM job_ranks WHERE oom_unix_ns IS NOT NULL ORDER BY oom_unix_ns, rank LIMIT 1;

-- part first_choice: the highest slot; where the rank that ran out of memory did not come so far, its last one; else the peaks of the runs.
SELECT slot
FROM (SELECT 1 AS priority, h.slot AS slot FROM highest h CROSS JOIN (SELECT count(*) AS ooms FROM first_oom) n WHERE n.ooms = 0
      UNION ALL
      SELECT 1 AS priority, h.slot FROM highest h JOIN candidates c ON c.slot = h.slot JOIN first_oom o ON c.rank = o.rank
      UNION ALL
      SELECT 2 AS priority, c.slot FROM candidates c JOIN first_oom o ON c.rank = o.rank WHERE c.slot >= 0
      UNION ALL
      SELECT 3 AS priority, -1 AS slot FROM job) choices
ORDER BY priority, slot DESC LIMIT 1;

-- part lasting: members of clusters that are unlike the others, but those that are it in passing.
SELECT u.slot AS slot, u.model_part AS model_part, u.cluster_number AS cluster_number, u.rank AS rank, u.step AS step, u.bytes AS bytes
FROM unlike u LEFT JOIN later_slots l ON u.slot = l.slot LEFT JOIN directions d ON u.rank = d.rank
WHERE l.slot IS NULL OR coalesce(d.direction, 0) = CASE WHEN u.bytes > u.main_bytes THEN 1 ELSE -1 END;

-- part chosen: the slot that is compared; is_uneven: ranks are unlike the others in it.
SELECT slot, is_uneven
FROM (SELECT 1 AS priority, f.slot AS slot, 1 AS is_uneven FROM first_choice f JOIN lasting l ON f.slot = l.slot
      UNION ALL
      SELECT 2 AS priority, s.slot, 1 AS is_uneven FROM strongest s JOIN lasting l ON s.slot = l.slot CROSS JOIN first_choice f WHERE f.slot >= 0
      UNION ALL
      SELECT 3 AS priority, l.slot, 1 AS is_uneven FROM lasting l WHERE l.slot = -2
      UNION ALL
      SELECT 4 AS priority, s.slot, 0 AS is_uneven FROM strongest s CROSS JOIN first_choice f WHERE f.slot >= 0
      UNION ALL
      SELECT 5 AS priority, f.slot, 0 AS is_uneven FROM first_choice f) choices
ORDER BY priority LIMIT 1;

-- part compared: the memory of each rank in it.
SELECT c.rank AS rank, c.model_part AS model_part, c.step AS step, c.bytes AS bytes FROM candidates c JOIN chosen k ON c.slot = k.slot;

-- part wanted: the rank that those unlike the others are compared with: the median rank of all where it is in the main cluster, else the main cluster's.
SELECT m.slot AS slot, m.model_part AS model_part, m.cluster_number AS cluster_number,
       CASE WHEN p.rank IS NULL THEN m.main_rank ELSE a.median_rank END AS wanted_rank, CASE WHEN p.rank IS NULL THEN m.main_bytes ELSE a.median_bytes END AS wanted_bytes
FROM mains m
JOIN chosen k ON m.slot = k.slot
JOIN all_medians a ON m.slot = a.slot
LEFT JOIN (SELECT slot, model_part, cluster_number, rank FROM pieces WHERE basis = 'part') p
ON p.slot = m.slot AND p.model_part = m.model_part AND p.cluster_number = m.cluster_number AND p.rank = a.median_rank
WHERE m.basis = 'part';

-- part reference_ranks: or, where that one kept no trace to find a cause in, the one that is nearest to it and did.
SELECT slot, model_part, rank AS compared_to_rank, bytes AS compared_to_bytes
FROM (SELECT w.slot AS slot, w.model_part AS model_part, p.rank AS rank, p.bytes AS bytes,
             row_number() OVER (PARTITION BY w.slot, w.model_part
                                ORDER BY CASE WHEN p.rank = w.wanted_rank THEN 2 - 2 * r.keeps_trace WHEN r.keeps_trace = 1 THEN 1 ELSE 3 END,
                                         abs(p.bytes - w.wanted_bytes), p.bytes, p.rank) AS place
      FROM wanted w
      JOIN pieces p ON p.slot = w.slot AND p.model_part = w.model_part AND p.cluster_number = w.cluster_number
      JOIN job_ranks r ON p.rank = r.rank
      WHERE p.basis = 'part') numbered
WHERE place = 1;

-- part deviating: groups of ranks that are unlike the rank they are compared with: within a part of the model, and parts that differ by design.
SELECT 0 AS by_design, l.model_part AS model_part, l.cluster_number AS cluster_number, l.rank AS rank, l.step AS step, l.bytes AS bytes,
       f.compared_to_rank AS compared_to_rank, f.compared_to_bytes AS compared_to_bytes
FROM lasting l
JOIN reference_ranks f ON l.slot = f.slot AND l.model_part = f.model_part
UNION ALL
SELECT 1 AS by_design, p.model_part, p.cluster_number, p.rank, p.step, p.bytes, a.median_rank AS compared_to_rank, a.median_bytes AS compared_to_bytes
FROM pieces p
JOIN chosen k ON p.slot = k.slot
JOIN all_medians a ON p.slot = a.slot
JOIN mains m ON p.basis = m.basis AND p.slot = m.slot AND p.model_part = m.model_part AND p.cluster_number = m.cluster_number
WHERE p.basis = 'all' AND p.model_part <> a.median_part AND abs(m.main_bytes - a.median_bytes) > m.tolerance;

-- part group_medians: the median rank of each group.
SELECT by_design, model_part, cluster_number, rank AS wanted_rank, bytes AS wanted_bytes
FROM (SELECT by_design, model_part, cluster_number, rank, bytes, row_number() OVER (PARTITION BY by_design, model_part, cluster_number ORDER BY bytes, rank) AS place,
             count(*) OVER (PARTITION BY by_design, model_part, cluster_number) AS members FROM deviating) numbered
WHERE place = floor((members + 1) / 2);

-- part deviations: a row a group, furthest first, those by design last. The group's rank is the median one, or that which is nearest to it and kept a trace.
SELECT by_design, model_part, cluster_number, compared_rank, compared_bytes, compared_step, compared_to_rank, compared_to_bytes,
       row_number() OVER (ORDER BY by_design, abs(compared_bytes - compared_to_bytes) DESC, model_part, cluster_number) AS deviation
FROM (SELECT g.by_design AS by_design, g.model_part AS model_part, g.cluster_number AS cluster_number, g.rank AS compared_rank, g.bytes AS compared_bytes,
             g.step AS compared_step, g.compared_to_rank AS compared_to_rank, g.compared_to_bytes AS compared_to_bytes,
             row_number() OVER (PARTITION BY g.by_design, g.model_part, g.cluster_number
                                ORDER BY CASE WHEN g.rank = w.wanted_rank THEN 2 - 2 * r.keeps_trace WHEN r.keeps_trace = 1 THEN 1 ELSE 3 END,
                                         abs(g.bytes - w.wanted_bytes), g.bytes, g.rank) AS place
      FROM deviating g
      JOIN group_medians w ON g.by_design = w.by_design AND g.model_part = w.model_part AND g.cluster_number = w.cluster_number
      JOIN job_ranks r ON g.rank = r.rank) numbered
WHERE place = 1;

-- answer balance: one row: how even the ranks are, and in which step that was looked at. None where no rank has memory to compare.
SELECT CASE WHEN max(v.compared_ranks) < 2 THEN 'nothing' WHEN max(k.is_uneven) = 1 THEN 'uneven' WHEN max(d.deviations) > 0 THEN 'by_design' ELSE 'balanced' END AS verdict,
       max(CASE WHEN j.job_by_total = 1 THEN 'total' ELSE 'allocated' END) AS measure,
       max(CASE WHEN j.job_by_total = 1 OR k.slot = -2 THEN 'cuda_memory' ELSE 'allocated' END) AS subject,
       max(CASE WHEN k.slot < 0 THEN 'peak' ELSE 'step' END) AS moment,
       max(CASE WHEN k.slot < 0 THEN 0 ELSE greatest(k.slot * j.width, 1) END) AS first_step,
       max(CASE WHEN k.slot < 0 THEN 0 ELSE least((k.slot + 1) * j.width - 1, greatest(j.job_last_step, 1)) END) AS last_step,
       max(v.compared_ranks) AS compared_ranks, max(v.min_bytes) AS min_bytes, max(a.median_bytes) AS median_bytes, max(v.mean_bytes) AS mean_bytes,
       max(v.max_bytes) AS max_bytes, max(v.max_bytes - v.min_bytes) AS skew_bytes,
       max(CAST(v.max_bytes AS DOUBLE) / CAST(v.mean_bytes AS DOUBLE)) AS max_over_mean,
       max(CAST(v.max_bytes AS DOUBLE) / CAST(a.median_bytes AS DOUBLE)) AS max_over_median,
       max(a.median_rank) AS median_rank, max(v.model_parts) AS model_parts
FROM (SELECT count(*) AS compared_ranks, min(bytes) AS min_bytes, max(bytes) AS max_bytes, count(DISTINCT model_part) AS model_parts,
             CAST(floor(CAST(sum(bytes) AS DOUBLE) / count(*) + 5e-1) AS BIGINT) AS mean_bytes FROM compared) v
CROSS JOIN chosen k CROSS JOIN job j JOIN all_medians a ON a.slot = k.slot CROSS JOIN (SELECT count(*) AS deviations FROM deviations) d
HAVING count(*) > 0;

-- answer peaks: a row a rank: its memory in the compared step (NULL: it has no such step), and the highest of its run.
SELECT r.rank AS rank, r.hostname AS hostname, r.local_rank AS local_rank, r.pid AS pid, r.device AS device, c.bytes AS bytes,
       r.peak_allocated AS peak_allocated_bytes, r.peak_reserved AS peak_reserved_bytes, r.peak_total AS peak_total_bytes, r.context AS context_bytes,
       r.communicator_bytes AS communicator_bytes, r.steps AS steps, r.last_step AS last_step, r.ended AS ended, r.last_event_unix_ns AS last_event_unix_ns,
       r.events AS total_events, r.lost_events AS lost_events
FROM ranks r LEFT JOIN compared c ON r.rank = c.rank
WHERE r.state IN ('present', 'damaged') ORDER BY rank;

-- answer clusters: a row a rank that is unlike the others: deviation: number of its group, from 1, furthest from the others first.
SELECT d.deviation AS deviation, g.rank AS rank, g.bytes AS bytes, g.by_design AS by_design, d.compared_bytes - d.compared_to_bytes AS delta_bytes,
       d.compared_rank AS compared_rank, d.compared_bytes AS compared_bytes, d.compared_step AS compared_step,
       d.compared_to_rank AS compared_to_rank, d.compared_to_bytes AS compared_to_bytes
FROM deviating g
JOIN deviations d ON g.by_design = d.by_design AND g.model_part = d.model_part AND g.cluster_number = d.cluster_number
ORDER BY deviation, rank;

-- answer skew: a row a step, or several in a row: the smallest, median and largest peak of the ranks that completed it.
SELECT greatest(slot * width, 1) AS first_step, least((slot + 1) * width - 1, greatest(job_last_step, 1)) AS last_step, min_bytes, median_bytes, max_bytes, max_rank, ranks
FROM (SELECT slot, max(members) AS ranks, max(CASE WHEN place = 1 THEN bytes END) AS min_bytes,
             max(CASE WHEN place = floor((members + 1) / 2) THEN bytes END) AS median_bytes,
             max(CASE WHEN place = members THEN bytes END) AS max_bytes, max(CASE WHEN place = members THEN rank END) AS max_rank
      FROM (SELECT slot, rank, bytes, row_number() OVER (PARTITION BY slot ORDER BY bytes, rank) AS place, count(*) OVER (PARTITION BY slot) AS members
            FROM rank_slots) numbered
      GROUP BY slot) counted
CROSS JOIN job ORDER BY first_step;

-- answer lines: a row a rank, line and category: what was alive at the highest moment of the compared step (of the run, where there is none), largest first.
SELECT e.rank AS rank, b.line AS line, b.category AS category, sum(b.size) AS bytes, count(*) AS blocks
FROM (SELECT c.rank AS rank, r.trace AS trace, r.device AS device, r.by_total AS by_total, CASE WHEN c.step < 0 THEN p.peak_event ELSE s.peak_event END AS event
      FROM compared c JOIN job_ranks r ON c.rank = r.rank JOIN processes p ON p.trace = r.trace LEFT JOIN steps s ON s.trace = r.trace AND s.step = c.step) e
JOIN blocks b ON b.trace = e.trace
WHERE b.device = e.device AND (b.layer = 'torch' OR e.by_total = 1) AND b.born_event <= e.event AND (b.died_event IS NULL OR b.died_event > e.event)
GROUP BY e.rank, b.line, b.category ORDER BY rank, bytes DESC, line NULLS LAST, category NULLS LAST;

-- answer leaks: a row a rank and line: what was never freed by the program's own code, and in how many steps it was allocated, largest first.
SELECT r.rank AS rank, b.line AS line, sum(b.size) AS bytes, count(*) AS blocks, count(DISTINCT b.step) AS steps
FROM blocks b JOIN job_ranks r ON b.trace = r.trace
WHERE b.kept AND b.layer = 'torch' AND b.device = r.device
GROUP BY r.rank, b.line ORDER BY rank, bytes DESC, line NULLS LAST;
