# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs in which something lives too long, and the same programs mended; each follows explain_test.HEAD."""

# What lives too long, and the same program mended: name -> (check, program, which looks at `mended`).
PAIRS = {
    "late": ("peak.gradients_in_forward", """
model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(8):
    if mended:
        optimizer.zero_grad()
    loss = model(torch.randn(2048, 2048, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""),
    "slots": ("peak.carried_over", """
model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 8192)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
slots = [None, None]
def forward(i):
    slots[i % 2] = model(torch.randn(2048, 512, device="cuda")).square()
    return slots[i % 2]
for step in range(8):
    for i in range(4):
        forward(i).mean().backward()
        if mended:
            slots[i % 2] = None
    optimizer.step()
    optimizer.zero_grad()
"""),
    "resumed": ("peak.checkpoint_copy", """
import os, tempfile
path = os.path.join(tempfile.mkdtemp(), "last.pt")
torch.save(model.state_dict(), path)
torch.cuda.empty_cache()
state = torch.load(path, map_location="cpu" if mended else None)
model.load_state_dict(state)
for i in range(8):
    step()
os.remove(path)
"""),
    "foreach": ("peak.foreach_temporaries", """
model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True if mended else None)
for i in range(5):
    optimizer.zero_grad()
    model(torch.randn(64, 2048, device="cuda")).square().mean().backward()
    optimizer.step()
"""),
    "epochs": ("peak.kept_results", """
for epoch in range(3):
    outputs = []
    for i in range(40):
        outputs.append(torch.softmax(model(torch.randn(512, 1024, device="cuda")).detach(), -1).to("cpu" if mended else "cuda"))
        step(512)
"""),
    "logits": ("peak.little_used", """
body, head = nn.Linear(256, 256).cuda().bfloat16(), nn.Linear(256, 32000, bias=False).cuda().bfloat16()
@torch.inference_mode()
def prefill(rows):
    hidden = body(torch.randn(1, rows, 256, device="cuda", dtype=torch.bfloat16)).relu()
    logits = head(hidden[:, -1:] if mended else hidden).float()
    return logits[:, -1].argmax(-1)
for i in range(4):
    prefill(2048)
"""),
    "joined": ("peak.joined", """
@torch.no_grad()
def evaluate(batches):
    model.eval()
    scores = None
    for i in range(batches):
        new = model(torch.randn(2048, 1024, device="cuda"))
        if mended:
            new = new.cpu()
        scores = new if scores is None else torch.cat([scores, new])
    return scores.mean().item()
evaluate(24)
"""),
}
