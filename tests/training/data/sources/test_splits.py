import pytest

from training.data.sources.source import check_styles, split_by_name


def test_shares_are_held_out_on_average():
    splits = [
        split_by_name(f"song {number}", validation=0.05, test=0.1) for number in range(20_000)
    ]
    assert splits.count("validation") == pytest.approx(1000, abs=100)
    assert splits.count("test") == pytest.approx(2000, abs=150)


def test_a_name_has_its_split_for_ever():
    # Were the hash to change, data sets prepared anew would test on what models were trained on.
    expected = {
        "001": "validation",
        "042": "validation",
        "097": "validation",
        "128": "validation",
        "909": "train",
    }
    assert {name: split_by_name(name, validation=0.5) for name in expected} == expected


def test_a_larger_share_moves_names_into_validation_alone():
    for number in range(500):
        small, large = (split_by_name(f"{number}", validation=share) for share in (0.1, 0.3))
        assert large == "validation" or small == large


def test_shares_that_leave_nothing_are_refused():
    with pytest.raises(
        ValueError, match=r"shares of 0\.6 for validation and 0\.4 for test leave nothing"
    ):
        split_by_name("a", validation=0.6, test=0.4)


def test_a_style_in_two_splits_is_named():
    check_styles([("a", "train"), ("b", "test"), ("a", "train"), ("", "train"), ("", "test")])
    with pytest.raises(ValueError, match="the style a lies in train and test"):
        check_styles([("a", "test"), ("a", "train")])
