"""Personal data: check digits by their standards, and what must stay."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.purify.personal import is_card_number, is_identity_number, mask
from l3_ylink.datakit.purify.seeds import seeds, seeds_reference

# GB 11643-1999 gives 11010519491231002X and 440524188001010014 as examples.
STANDARD_IDS = ["11010519491231002X", "440524188001010014", "11010519491231002x"]


@pytest.mark.parametrize("number", STANDARD_IDS)
def test_the_examples_of_the_standard_are_identity_numbers(number: str) -> None:
    assert is_identity_number(number)


@pytest.mark.parametrize(
    "number",
    [
        "110105194912310021",
        "11010519491331002X",
        "99010519491231002X",
        "1101051949123100",
        "11010519490230002X",
    ],
)
def test_a_wrong_check_digit_date_or_region_is_no_identity_number(number: str) -> None:
    assert not is_identity_number(number)


@given(st.sampled_from(STANDARD_IDS[:2]), st.integers(0, 16), st.integers(1, 9))
def test_one_changed_digit_is_always_noticed(number: str, place: int, by: int) -> None:
    changed = str((int(number[place]) + by) % 10)
    assert not is_identity_number(number[:place] + changed + number[place + 1 :])


# Test numbers that card networks publish.
@pytest.mark.parametrize(
    "number", ["4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005", "6011111111111117"]
)
def test_published_test_cards_pass(number: str) -> None:
    assert is_card_number(number)


@given(st.integers(0, 15), st.integers(1, 9))
def test_luhn_notices_one_changed_digit(place: int, by: int) -> None:
    number = "5555555555554444"
    changed = str((int(number[place]) + by) % 10)
    assert not is_card_number(number[:place] + changed + number[place + 1 :])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("邮箱zhang.san@example.com.cn，谢谢", "邮箱<EMAIL>，谢谢"),
        ("身份证11010519491231002X号", "身份证<ID>号"),
        ("手机13812345678，或+86 138 1234 5678", "手机<PHONE>，或<PHONE>"),
        ("座机010-62345678转8001", "座机<PHONE>转8001"),
        (
            "卡号6222 0212 3456 7890 128对，6222 0212 3456 7890 129不对",
            "卡号<CARD>对，6222 0212 3456 7890 129不对",
        ),
        ("card 4111 1111 1111 1111.", "card <CARD>."),
        ("server 8.8.8.8 and 127.0.0.1, 192.168.1.1", "server <IP> and 127.0.0.1, 192.168.1.1"),
        ("call +1 (555) 010-9999", "call <PHONE>"),
        ("call +44 20 7946 0958 now", "call <PHONE> now"),
    ],
)
def test_what_is_found_stands_next_to_hanzi_without_spaces(text: str, expected: str) -> None:
    assert mask(text)[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4 of 2024-01-02 03:04:05.678901",
        "0x13812345678",
        "订单13812345678901234",
        "sha256 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        "ISBN 978-7-111-11111-1, pi = 3.14159265358979323846",
        "user@localhost, @mention, a@b",
        "1.13812345678",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert mask(text, ("email", "identity", "card", "phone")) == (text, {})


@given(st.text("1234567890 -@.+aX", max_size=60))
def test_masking_twice_finds_nothing_more(text: str) -> None:
    once, _ = mask(text)
    assert mask(once) == (once, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("车牌京A12345的轿车", "车牌<PLATE>的轿车"),
        ("新能源粤BD12345和沪A12345D", "新能源<PLATE>和<PLATE>"),
        ("教练车苏E·1234学，粤Z·12A4港", "教练车<PLATE>，<PLATE>"),
        ("护照号E12345678和EA1234567", "护照号<PASSPORT>和<PASSPORT>"),
        ("Passport No. G12345678.", "Passport No. <PASSPORT>."),
        ("来自2400:3200::1的访问", "来自<IP>的访问"),
        ("电话(010)62345678、(0755) 8234 5678", "电话<PHONE>、<PHONE>"),
        ("tel=13812345678&mobile_phone=13912345678", "tel=<PHONE>&mobile_phone=<PHONE>"),
        ("打+852 6180 3250或0086-138-1234-5678", "打<PHONE>或<PHONE>"),
        ("本人11010519491231002X手机13812345678卡6222021234567890128", "本人<ID>手机<PHONE>卡<CARD>"),
    ],
)
def test_plates_passports_and_numbers_of_other_places(text: str, expected: str) -> None:
    assert mask(text)[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "京A级景区",
        "苏A股123456",
        "商品E12345678",
        "见第 6.3.6.1 节",
        "6.3.6.1 配置",
        "版本号：114.5.66.77",
        "std::vector<int> a::b::C1",
        "mac 00:1b:44:11:3a:b7 at 12:34:56",
        "icon@2x.png getty@tty1.service git@host:me/repo.git",
        "2147483647 到 +2147483647",
        "part no. 15241676631-A262",
        "Timestamp: 17106715833",
        "vruntime=17815800388 [ns]",
        "total 14511243264",
        "4641 4870 5047 5310 5488 5649 5826 6004 6182 6343 6",
        "2345 3456-4567 5678-6789",
        "00 11 22 33 44 55 66 77 88 99",
        "4111111111111112 and 8800000000000000000",
        "6217000000000000",
    ],
)
def test_sections_versions_scopes_and_part_numbers_are_nobody(text: str) -> None:
    assert mask(text) == (text, {})


@given(st.text("0123456789 .-+()@:aFX京A中\u00e9", max_size=80))
@settings(max_examples=200, deadline=None)
def test_the_compiled_scan_finds_what_the_expressions_find(text: str) -> None:
    assert seeds(text.encode()) == seeds_reference(text.encode())


def test_lone_surrogates_and_long_texts_are_taken() -> None:
    assert mask("\ud800 a@b.cn") == ("\ud800 <EMAIL>", {"email": 1})
    text = "13812345678，" * 20_000
    assert mask(text) == ("<PHONE>，" * 20_000, {"phone": 20_000})
