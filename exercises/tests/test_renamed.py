"""Options of older versions answer with the settings that took their place."""

from __future__ import annotations

from exercises.tests.commands import CANITEDIT, EDITPACK, EXERCISM


def test_an_old_spelling_of_exercism_answers_with_the_new_one() -> None:
    answers = {
        "run --ids acronym": "--ids is the setting exercises.ids now: give "
        "--set exercises.ids=VALUE",
        "run --shuffle": "--shuffle is now: "
        "python -m swe_retry_exercises.exercism run --set exercises.shuffle=SEED",
        "report run --no-page": "--no-page is now: "
        "python -m swe_retry_exercises.exercism report --set report.page=false",
    }
    for line, answer in answers.items():
        assert EXERCISM.refusal(line) == f"error: {answer}"


def test_an_old_spelling_of_canitedit_answers_with_the_new_one() -> None:
    answers = {
        "evaluate DIR": "evaluate is now: python -m swe_retry_exercises.canitedit report DIR…",
        "run --top-p 1": "--top-p is the setting completions.top_p now: give "
        "--set completions.top_p=VALUE",
        "report DIR --k 1": "--k is the setting report.k now: give "
        "--set report.k=VALUE",
        "stats --v1": "--v1 is the setting problems.v1 now: give "
        "--set problems.v1=VALUE",
    }
    for line, answer in answers.items():
        assert CANITEDIT.refusal(line) == f"error: {answer}"


def test_an_old_spelling_of_editpack_answers_with_the_new_one() -> None:
    answers = {
        "filter rows.jsonl --skip-bad": "--skip-bad is the setting rows.skip_bad now: give "
        "--set rows.skip_bad=VALUE",
        "mine repo --any-license": "--any-license is now: "
        "python -m swe_retry_exercises.editpack mine --set mine.licenses=any",
        "sample rows.jsonl --n 3": "--n is now: "
        "python -m swe_retry_exercises.editpack sample ROWS --size N",
        "train rows.jsonl --seed 3": "--seed is now: "
        "python -m swe_retry_exercises.editpack sample --set sample.seed=SEED, or "
        "train --set train.seed=SEED",
    }
    for line, answer in answers.items():
        assert EDITPACK.refusal(line) == f"error: {answer}"
