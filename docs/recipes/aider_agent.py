"""aider: aider_agent.py MODEL TEMPERATURE MESSAGE_FILE RESULT_FILE"""

import json
import os
import subprocess
import sys
from pathlib import Path

model, temperature, message_file, result_file = sys.argv[1:]
home = Path.home()  # a fresh folder outside of the checkout
events, message, settings = home / "events.jsonl", home / "message.txt", home / "settings.yml"
issue = Path(message_file).read_text(encoding="utf-8", errors="replace")
# aider takes a message that begins with / or ! for a command.
message.write_text(f"Please solve this issue:\n\n{issue}", encoding="utf-8")
# aider has no option for the temperature.
extra = {"name": "aider/extra_params", "extra_params": {"temperature": float(temperature)}}
settings.write_text(json.dumps([extra]))
# aider fetches a price list unless it finds one; litellm's own has the prices.
prices = home / ".aider/caches/model_prices_and_context_window.json"
prices.parent.mkdir(parents=True)
prices.write_text('{"none": {}}')
with Path(".git/info/exclude").open("a") as stream:
    stream.write(".aider*\n")
command = [
    "aider", "--model", model, "--message-file", str(message), "--yes-always",
    "--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-stream", "--no-pretty",
    # With --yes-always it would visit the addresses in an issue and install a browser for that.
    "--no-detect-urls", "--disable-playwright", "--no-suggest-shell-commands",
    "--no-check-update", "--no-show-release-notes", "--no-show-model-warnings",
    "--analytics-disable", "--analytics-log", str(events),
    "--model-settings-file", str(settings), "--env-file", os.devnull,
    "--chat-history-file", str(home / "chat.md"), "--input-history-file", os.devnull,
]  # fmt: skip
environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
code = subprocess.run(command, env=environment, check=False).returncode
if events.exists():
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    sent = [line["properties"] for line in lines if line["event"] == "message_send"]
    costs = [properties["cost"] for properties in sent]
    tokens = {
        "prompt": sum(properties["prompt_tokens"] for properties in sent),
        "completion": sum(properties["completion_tokens"] for properties in sent),
    }
    # aider writes 0 for a model without a known price.
    spent = {"cost": sum(costs) if all(costs) else None, "tokens": tokens}
    Path(result_file).write_text(json.dumps(spent))
    # aider ends with exit code 0 even when no call succeeded.
    code = code or int(not sent)
sys.exit(code)
