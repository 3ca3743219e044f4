"""A labelled set of texts with personal data in them, in Chinese and English, made from the standards.

`python personal_set.py [--texts N] [--seed S]` prints JSON lines {"text", "finds": [[kind, start, end]]}.
Numbers are made by the rules of their issuers (GB 11643 with ISO 7064 MOD 11-2, ISO/IEC 7812 with Luhn,
mobile ranges, GA 36 plates with new-energy ones), never by the patterns that look for them.  Half of the
texts carry things that only look like such data: numbers with a wrong check digit, orders, time stamps,
versions, sections, hashes, ISBN, private addresses, file names with an @.  Nobody's data is in it.
"""

# ruff: noqa: E501 (lists of words)

from __future__ import annotations

import argparse
import datetime as dt
import json
from collections.abc import Callable
from random import Random
from typing import Any

DISTRICTS = ("110101", "110108", "310104", "320102", "330106", "440305", "510107", "610113", "420106", "650102", "540102", "460105", "230103", "152201", "350203")  # fmt: skip
MOBILES = ("130", "131", "132", "133", "134", "135", "136", "137", "138", "139", "145", "147", "149", "150", "151", "152", "155", "158", "159", "166", "170", "173", "176", "177", "178", "180", "182", "185", "188", "189", "191", "193", "198", "199")  # fmt: skip
AREAS = ("010", "021", "020", "0755", "0571", "028", "029", "0991", "0532", "027")
CARDS = (("622202", 19), ("622848", 19), ("621700", 19), ("622588", 16), ("621661", 19), ("625912", 16), ("400000", 16), ("453242", 16), ("520108", 16), ("543098", 16), ("370000", 15), ("352800", 16), ("601100", 16), ("955880", 19))  # fmt: skip
PROVINCES = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
NAMES = ("zhangwei", "li.na", "wang_fang", "chen-jie", "j.smith", "maria.garcia", "o.hara", "k2023", "liu88", "info.team", "zhao+shop", "A.Yang")  # fmt: skip
HOSTS = ("163.com", "qq.com", "sina.com.cn", "mail.tsinghua.edu.cn", "gmail.com", "outlook.com", "firma.de", "uni-bonn.de", "corp.example.co.uk", "foxmail.com", "126.com", "yeah.net")  # fmt: skip

CARRIERS: dict[str, tuple[str, ...]] = {
    "identity": ("身份证号{}。", "身份证{}已登记", "公民身份号码：{}，住址不详", "持证人{}办理了业务", "ID number {} was entered.", "证件号码为{}的乘客请到柜台", "姓名王某身份证号码{}手机另填", "（{}）"),
    "card": ("银行卡号{}，开户行不详", "请汇到{}这张卡", "工行卡{}户名李某", "Card {} was declined.", "卡号：{}", "card no. {}, valid until 12/29", "打款账户{}谢谢"),
    "phone": ("联系电话{}。", "手机{}，请勿骚扰", "请致电{}咨询", "电话：{}（王先生）", "打{}找我", "call {} now", "Tel. {}, ask for Mr Li.", "微信同号{}"),
    "email": ("邮箱{}，谢谢", "请发送到{}。", "联系人邮箱：{}（张工）", "Mail to {} for details.", "<{}>", "把简历投给{}吧", "contact: {};"),
    "ip": ("来自{}的访问", "登录地址为{}，请核实", "client {} sent 400", "服务器{}已下线", "from {} port 22", "IP：{}，浏览器未知"),
    "plate": ("车牌{}，白色轿车", "一辆{}的货车", "号牌为{}的小客车闯红灯", "车牌号：{}", "车主的{}停在路边", "plate {} was towed"),
    "passport": ("护照号{}，有效期十年", "护照：{}", "Passport No. {} expires in May.", "护照号码为{}的旅客"),
}  # fmt: skip
PLAIN = ("系统启动失败，请先查看日志文件。", "这个选项的默认值是开。", "The service reads its settings when it starts.", "春江潮水连海平，海上明月共潮生。", "订单已经发货，预计三天到达。", "参见下一节的例子。", "Please keep this page open until the work is done.", "用户可以在设置里更改语言。")  # fmt: skip


def digits(random: Random, count: int) -> str:
    return "".join(str(random.randrange(10)) for _ in range(count))


def mod_11_2(body: str) -> str:
    """The check character of ISO 7064 MOD 11-2, by its recursion."""
    product = 0
    for digit in body:
        product = (product + int(digit)) * 2 % 11
    return "0123456789X"[(12 - product) % 11]


def luhn(body: str) -> str:
    """The check digit of ISO/IEC 7812."""
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def identity(random: Random) -> str:
    born = dt.date(1930, 1, 1) + dt.timedelta(days=random.randrange(33_000))
    body = random.choice(DISTRICTS) + born.strftime("%Y%m%d") + digits(random, 3)
    number = body + mod_11_2(body)
    return number.lower() if random.random() < 0.3 else number


def card(random: Random) -> str:
    head, length = random.choice(CARDS)
    body = head + digits(random, length - len(head) - 1)
    number = body + luhn(body)
    if length in (16, 19) and random.random() < 0.4:
        joiner = random.choice(" -")
        return joiner.join(number[start : start + 4] for start in range(0, length, 4))
    return number


def phone(random: Random) -> str:
    number = random.choice(MOBILES) + digits(random, 8)
    first = f"{number[:3]}-{number[3:7]}-{number[7:]}"
    area = random.choice(AREAS)
    local = str(random.randrange(2, 9)) + digits(random, 7 if len(area) == 3 else 6)
    return random.choice((
        number, number, number, first, first.replace("-", " "), f"+86 {number}", f"+86-{first}", f"0086{number}",
        f"{area}-{local}", f"({area}){local}", f"({area}) {local[:-4]} {local[-4:]}",
        f"+1 ({random.randrange(201, 989)}) {random.randrange(200, 999)}-{digits(random, 4)}",
        f"+44 20 {digits(random, 4)} {digits(random, 4)}", f"+49 30 {digits(random, 4)} {digits(random, 4)}",
        f"+852 {random.randrange(5, 10)}{digits(random, 3)} {digits(random, 4)}",
    ))  # fmt: skip


def email(random: Random) -> str:
    return f"{random.choice(NAMES)}{random.choice(('', '', '99', '2024'))}@{random.choice(HOSTS)}"


def ip(random: Random) -> str:
    if random.random() < 0.2:
        return f"2400:{random.randrange(0x1000, 0xFFFF):x}:{random.randrange(0x1000, 0xFFFF):x}::{random.randrange(1, 0xFFFF):x}"
    first = random.choice((1, 8, 36, 58, 61, 101, 114, 139, 180, 202, 211, 223))
    return f"{first}.{random.randrange(64, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"


def plate(random: Random) -> str:
    head = random.choice(PROVINCES) + random.choice("ABCDEFGHJ")
    joiner = random.choice(("", "", "·", " "))
    ordinary = list(digits(random, 5))
    for place in random.sample(range(5), random.randrange(3)):
        ordinary[place] = random.choice(LETTERS)
    return (head + joiner) + random.choice((
        "".join(ordinary), "".join(ordinary), random.choice("DF") + random.choice(LETTERS + "0123") + digits(random, 4),
        digits(random, 5) + random.choice("DF"), digits(random, 4) + random.choice("学警挂"),
    ))  # fmt: skip


def passport(random: Random) -> str:
    return random.choice((
        "E" + digits(random, 8), "E" + random.choice(LETTERS) + digits(random, 7), "G" + digits(random, 8), "PE" + digits(random, 7)
    ))  # fmt: skip


MAKERS: dict[str, Callable[[Random], str]] = {
    "identity": identity,
    "card": card,
    "phone": phone,
    "email": email,
    "ip": ip,
    "plate": plate,
    "passport": passport,
}


def wrong_check(number: str, random: Random) -> str:
    """The number with another last digit, so that its check fails."""
    last = int(number[-1]) if number[-1].isdigit() else 10
    return number[:-1] + str((last + random.randrange(1, 9)) % 10 if last < 10 else random.randrange(10))


def looks_like(random: Random) -> str:
    """Something that is no personal data and looks like it."""
    stamp = 1_600_000_000_000 + random.randrange(200_000_000_000)
    return random.choice((
        f"身份证号码格式如{wrong_check(identity(random).upper().replace('X', '0'), random)}（校验位有误）" if random.random() < 0.3
        else f"订单号{digits(random, 18).replace('19', '91').replace('20', '02')}",
        f"流水号{wrong_check(card(random).replace(' ', '').replace('-', ''), random) if random.random() < 0.5 else '88' + digits(random, 18)}",
        f"时间戳{stamp}", f"timestamp={stamp // 1000}.{digits(random, 6)}", f"版本 {random.randrange(1, 9)}.{random.randrange(40)}.{random.randrange(40)}.{random.randrange(40)}",
        f"version 10.{random.randrange(99)}.{random.randrange(99)}.{random.randrange(1, 250)}", f"见第 {random.randrange(1, 20)}.{random.randrange(1, 9)}.{random.randrange(1, 9)}.{random.randrange(1, 9)} 节",
        f"sha1 {random.getrandbits(160):040x}", f"ISBN 978-7-{digits(random, 3)}-{digits(random, 5)}-{digits(random, 1)}", f"圆周率 3.14159265358979{digits(random, 6)}",
        f"网关 192.168.{random.randrange(255)}.{random.randrange(1, 255)}", f"监听 127.0.0.1:{random.randrange(1024, 9999)}", f"图标 icon@{random.randrange(2, 4)}x.png",
        f"getty@tty{random.randrange(1, 7)}.service", f"npm i left-pad@1.{random.randrange(9)}.{random.randrange(9)}", f"git@host:{digits(random, 6)}/repo.git",
        f"2024-0{random.randrange(1, 10)}-1{random.randrange(10)} 12:{random.randrange(10, 60)}:{random.randrange(10, 60)}", f"地址 0x{random.getrandbits(44):011x}", f"型号 E{digits(random, 8)}B",
        f"商品编号1{digits(random, 12)}", f"京A级景区共{random.randrange(10, 99)}处", f"苏A股{digits(random, 6)}", f"坐标 39.9{digits(random, 6)},116.3{digits(random, 6)}",
        f"{digits(random, 2)} {digits(random, 2)} {digits(random, 2)} {digits(random, 2)} {digits(random, 2)} {digits(random, 2)} {digits(random, 2)} {digits(random, 2)}",
        f"std::vector<int> a::b::C{random.randrange(9)}", f"共{random.randrange(10**9, 10**10 - 1)}字节", f"mac 00:1b:44:11:{random.randrange(16, 255):x}:b7", f"群号{digits(random, 9)}",
        f"QQ@{digits(random, 5)}", f"uuid {random.getrandbits(32):08x}-{digits(random, 4)}-4{digits(random, 3)}-a{digits(random, 3)}-{random.getrandbits(48):012x}",
        f"价格￥{random.randrange(10**6, 10**7)}.00", f"电话 1{random.choice('012')}{digits(random, 9)}（号段不存在）", f"part no. 1{random.choice('345')}{digits(random, 9)}-A{digits(random, 3)}",
    ))  # fmt: skip


def row(random: Random) -> dict[str, Any]:
    """One text with its finds, or with what only looks like them."""
    parts: list[str] = [random.choice(PLAIN) for _ in range(random.randrange(1, 4))]
    finds: list[list[Any]] = []
    text = "".join(parts)
    for _ in range(random.randrange(1, 4)):
        if random.random() < 0.5:
            text += (
                random.choice(("，", "。", "\n", "；其中"))
                + looks_like(random)
                + random.choice(("，", "。", "\n"))
            )
        else:
            kind = random.choice(tuple(MAKERS))
            before, after = random.choice(CARRIERS[kind]).split("{}")
            value = MAKERS[kind](random)
            text += random.choice(("", "\n", "。")) + before
            finds.append([kind, len(text), len(text) + len(value)])
            text += value + after
            if after[-1:] not in tuple("。.，;）>"):
                text += random.choice(("。", "\n", "，"))
    text += random.choice(PLAIN)
    return {"text": text, "finds": finds}


def labelled(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """`count` texts, the same for the same seed."""
    random = Random(seed)
    return [row(random) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    for entry in labelled(options.texts, options.seed):
        print(json.dumps(entry, ensure_ascii=False))


if __name__ == "__main__":
    main()
