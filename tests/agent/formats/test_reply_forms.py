"""Replies in the forms of many models: read as meant, or the model is told why not."""

from __future__ import annotations

import pytest

from agent.formats.base import feedback
from tests.agent.formats.editing import apply
from tests.agent.formats.reply_forms import FORMS, Form


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_reply_is_read_as_it_is_meant(form: Form) -> None:
    report = apply(form.form, form.reply, form.before)
    said = feedback(report)
    if form.after is None:
        assert report.contents == {}
        assert said, "nothing was applied, and the model is not told"
    else:
        assert (report.contents, said) == (form.after, "")
