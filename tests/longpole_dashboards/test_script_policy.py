import re

from longpole_dashboards.script_policy import PLACE, hash_script, insert_policy, make_policy
from longpole_dashboards.shell import EARLY_SCRIPT, INDEX_STRING


def test_a_hash_is_as_browsers_make_it():
    # The example of the CSP specification.
    text = "alert('Hello, world.');"
    assert hash_script(text) == "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"


def test_no_script_may_be_made_of_text():
    policy = make_policy(["'sha256-x'"])
    scripts = policy.partition("script-src")[2].partition(";")[0]
    assert "unsafe" not in scripts
    assert "unsafe-eval" not in policy


def test_the_policy_stands_before_the_first_script():
    page = insert_policy(INDEX_STRING, [], [EARLY_SCRIPT])
    assert PLACE not in page
    assert page.index("Content-Security-Policy") < page.index("<script")
    assert hash_script(EARLY_SCRIPT) in page
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert script == EARLY_SCRIPT
