"""Builds `integration_tests/demo/data` from Debian packages and from sentences of ours.

`python make_demo_data.py UNPACKED OUT`: UNPACKED holds one folder for each package of `PACKAGES`, as
`apt-get download` and `dpkg -x` leave them.  The same packages give the same bytes.  What is damaged, doubled
or noise on purpose is made here, so that it is known exactly.
"""
# ruff: noqa: E501 (the texts are data)

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import sys
import zipfile
from pathlib import Path

from triage_templates import ACTIONS, FRAMES, HELD_OUT, PROMPTS, SLOTS, TRAIN

PACKAGES = (
    "debian-handbook",
    "debian-reference-en",
    "debian-reference-zh-cn",
    "maint-guide-zh-cn",
    "maint-guide-zh-tw",
    "debian-faq",
    "debian-faq-zh-cn",
    "fortunes-zh",
    "python3.11-doc",
    "zsh-syntax-highlighting",
)
SEED = 20261130
HANDBOOK = "debian-handbook/usr/share/doc/debian-handbook/html"
FAQ_ZH = "debian-faq-zh-cn/usr/share/doc/debian/FAQ"
PYTHON = "python3.11-doc/usr/share/doc/python3.11/html/_sources"
TRAIN_ROWS, HELD_OUT_ROWS = 400, 60
CHINESE_SHARE = 0.3


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    data = source.read_bytes()
    target.write_bytes(gzip.decompress(data) if source.suffix == ".gz" and target.suffix != ".gz" else data)


def real_text(packages: Path, out: Path) -> None:
    """Real documents, as their packages carry them."""
    manuals(packages, out)
    for part in ("tutorial", "howto"):
        for page in sorted((packages / PYTHON / part).glob("*.txt")):
            if page.stat().st_size < 60_000:
                copy(page, out / "python" / part / page.name.replace(".rst.txt", ".txt"))
    poems = packages / "fortunes-zh/usr/share/games/fortunes"
    copy(poems / "tang300", out / "poems/tang300.txt")
    copy(poems / "song100", out / "poems/song100.txt")
    sayings = (poems / "chinese").read_text("utf-8").split("\n%\n")
    (out / "poems/sayings.txt").write_text("\n%\n".join(sayings[700:1500]) + "\n%\n", "utf-8")
    shell = packages / "zsh-syntax-highlighting/usr/share/doc/zsh-syntax-highlighting"
    for page in sorted(shell.rglob("*.md*")):
        copy(page, out / "markdown" / page.name.removesuffix(".gz"))


def manuals(packages: Path, out: Path) -> None:
    """Manuals of Debian: pages of the handbook in five languages, the FAQ, the reference, two PDFs."""
    for language, count in (("zh-CN", 55), ("en-US", 45), ("ja-JP", 3), ("fr-FR", 3), ("de-DE", 2)):
        pages = sorted((packages / HANDBOOK / language).glob("sect.*.html"))
        for page in pages[:: max(1, len(pages) // count)][:count]:
            copy(page, out / "handbook" / language / page.name)
    for name in ("debian-faq/usr/share/doc/debian/FAQ", f"{FAQ_ZH}/zh-cn"):
        for page in sorted((packages / name).rglob("*.html")):
            if not page.is_symlink():
                copy(page, out / "faq" / page.name)
    for language in ("zh-cn", "en"):
        folder = packages / f"debian-reference-{language}/usr/share/debian-reference"
        for chapter in ("ch03", "ch08"):
            copy(folder / f"{chapter}.{language}.html", out / f"reference/{chapter}.{language}.html")
    guide = packages / "maint-guide-zh-cn/usr/share/doc/maint-guide-zh-cn/maint-guide.zh-cn.pdf"
    copy(guide, out / "manuals/maint-guide.zh-cn.pdf")
    copy(packages / FAQ_ZH / "debian-faq.zh-cn.pdf.gz", out / "manuals/debian-faq.zh-cn.pdf.gz")


def other_encodings(packages: Path, out: Path) -> None:
    """The same real text in the encodings of its time."""
    folder = out / "encodings"
    folder.mkdir(parents=True, exist_ok=True)
    taiwan = gzip.decompress(
        (packages / "maint-guide-zh-tw/usr/share/doc/maint-guide-zh-tw/maint-guide.zh-tw.txt.gz").read_bytes()
    )
    (folder / "maint-guide.zh-tw.big5.txt").write_bytes(
        taiwan.decode()[:40_000].encode("big5hkscs", "ignore")
    )
    faq = gzip.decompress(
        (packages / "debian-faq-zh-cn/usr/share/doc/debian/FAQ/debian-faq.zh-cn.txt.gz").read_bytes()
    )
    (folder / "debian-faq.zh-cn.gb18030.txt").write_bytes(faq.decode()[:40_000].encode("gb18030"))
    english = (packages / PYTHON / "tutorial/errors.rst.txt").read_text("utf-8")
    (folder / "errors.utf-16.txt").write_bytes(english.encode("utf-16"))


def damage(out: Path, rng: random.Random, locked: bytes) -> None:
    """Copies with mojibake, with edits, cut short; each made by a mechanism that is met in the wild."""
    folder = out / "scraped"
    folder.mkdir(parents=True, exist_ok=True)
    page = (out / "python/tutorial/venv.txt").read_text("utf-8").replace("'", "’")
    (folder / "venv.cp1252.txt").write_bytes(page.encode().decode("cp1252", "ignore").encode())
    faq = (out / "encodings/debian-faq.zh-cn.gb18030.txt").read_bytes().decode("gb18030")
    lines = faq[12_000:22_000].split("\n")
    (folder / "faq.utf8-as-gbk.txt").write_text(
        "\n".join(
            line.encode().decode("gb18030", "replace") if number % 20 == 0 else line
            for number, line in enumerate(lines)
        ),
        "utf-8",
    )
    pages = sorted((out / "handbook/zh-CN").glob("*.html")) + sorted((out / "handbook/en-US").glob("*.html"))
    for number, source in enumerate(rng.sample([page for page in pages if page.stat().st_size > 9_000], 8)):
        (folder / f"mirror-{number}.html").write_bytes(source.read_bytes())
    for number, source in enumerate(sorted((out / "python/tutorial").glob("*.txt"))[3:11]):
        words = source.read_text("utf-8").split(" ")
        for place in rng.sample(range(len(words)), max(1, len(words) // 200)):
            words[place] = rng.choice(("indeed", "certainly", "rather"))
        (folder / f"edited-{number}.txt").write_text(" ".join(words), "utf-8")
    pdf = (out / "manuals/maint-guide.zh-cn.pdf").read_bytes()
    (folder / "cut-short.pdf").write_bytes(pdf[:30_000])
    (folder / "locked.pdf").write_bytes(locked)
    (folder / "noise.txt").write_bytes(bytes(rng.randrange(256) for _ in range(4_000)) + b"\0" * 50)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("word/document.xml"), b" " * 8_000_000, zipfile.ZIP_DEFLATED)
    (folder / "bomb.docx").write_bytes(bomb.getvalue())
    (folder / "empty.html").write_bytes(b"")


def locked_pdf() -> bytes:
    """A PDF that asks for a password; encryption is random, so it is made once."""
    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    writer.encrypt("not told", algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


NOISE = {
    "advert.txt": "代开发票请加微信 13900000000，澳门娱乐城时时彩六合彩在线投注，日赚千元，扫码关注免费领取优惠券，点击购买包邮。\n" * 6,
    "menu.html": "<html><body>" + "<div>首页</div><div>产品中心</div><div>新闻资讯</div><div>联系我们</div>" * 40 + "</body></html>",
    "counter.txt": "\n".join(f"{number} {number * 7 % 97} {number * number}" for number in range(400)),
    "lorem.txt": "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore. " * 30,
    "repeat.txt": "To install the package you have to click on the button below and wait for that page to load.\n" * 60,
    "contacts.txt": (
        "The people of the help desk answer to questions that users of the cluster have, and they can be reached in many ways. "
        "Write to help.desk@example.com or to zhang.wei@example.org, call 13812345678 or +86 139 8765 4321 in the morning. "
        "A visitor has to show an identity card such as 11010519491231002X at the gate, and to pay with the card "
        "4111 1111 1111 1111 if the visit is longer than a day. The number 4111 1111 1111 1112 is not a card, and "
        "110105194912310021 is not an identity number, so that both of them stay in the text as they are.\n"
        "值班电话13912345678，邮箱ops@example.cn，身份证号11010519491231002X仅为示例。\n"
    ),
}  # fmt: skip


def noise(out: Path) -> None:
    """What a crawl brings that nobody wants, and a page with personal data that is nobody's."""
    folder = out / "noise"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in NOISE.items():
        (folder / name).write_text(text, "utf-8")


def fill(template: str, rng: random.Random) -> str:
    return template.format(**{name: rng.choice(values) for name, values in SLOTS.items()})


def rows(
    templates: dict[str, dict[str, list[str]]], count: int, rng: random.Random, *, framed: bool
) -> list[dict[str, str]]:
    """Different rows, as many for each action, in a random order."""
    made = []
    for action in ACTIONS:
        seen: set[str] = set()
        share = count // len(ACTIONS)
        for number in range(share):
            language = "zh" if number < CHINESE_SHARE * share else "en"
            some = templates[action][language]
            while True:
                line = fill(some[number % len(some)], rng)
                log = fill(rng.choice(FRAMES[language]).replace("{line}", line), rng) if framed else line
                if log not in seen:
                    break
            seen.add(log)
            made.append({"action": action, "language": language, "log": log})
    rng.shuffle(made)
    return made


def instructions(out: Path, rng: random.Random) -> None:
    """The fault-triage task: training rows in three forms, some of them wrong; held-out items."""
    folder = out / "instructions"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, row in enumerate(rows(TRAIN, TRAIN_ROWS, rng, framed=True)):
        prompt = PROMPTS[row["language"]].format(log=row["log"])
        if number % 10 == 3:
            value: dict[str, object] = {"instruction": prompt, "input": "", "output": row["action"]}
        elif number % 10 == 7:
            value = {
                "conversations": [{"from": "human", "value": prompt}, {"from": "gpt", "value": row["action"]}]
            }
        else:
            value = {
                "messages": [
                    {"role": "user", "content": prompt},
                    {"role": "assistant", "content": row["action"]},
                ]
            }
        lines.append(json.dumps({"id": f"triage-{number:03d}", **value}, ensure_ascii=False))
    held_out = [
        {
            "id": f"held-out-{number:02d}",
            "question": PROMPTS[row["language"]].format(log=row["log"]),
            "choices": list(ACTIONS),
            "answer": ACTIONS.index(row["action"]),
            "log": row["log"],
            "language": row["language"],
        }
        for number, row in enumerate(rows(HELD_OUT, HELD_OUT_ROWS, rng, framed=False))
    ]
    leaked = {
        "messages": [
            {"role": "user", "content": held_out[0]["question"]},
            {"role": "assistant", "content": "watch"},
        ]
    }
    wrong = [
        lines[5],
        json.dumps(leaked, ensure_ascii=False),
        '{"id": "no-answer", "messages": [{"role": "user", "content": "Log: fan stopped"}]}',
        '{"id": "empty", "instruction": "Log: port down", "output": " "}',
        '{"id": "role", "conversations": [{"from": "robot", "value": "hello"}]}',
        '{"id": "cut", "messages": [{"role": "us',
    ]
    (folder / "train.jsonl").write_text("\n".join([*lines, *wrong]) + "\n", "utf-8")
    (folder / "heldout.jsonl").write_text(
        "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in held_out), "utf-8"
    )
    quoted = "\n".join(str(item["log"]) for item in held_out[:12])
    (out / "noise/leaked-test.txt").write_text(
        "These lines were copied from a test that the model is judged by, and so they must not be in the text "
        "that it has learnt from. The page was found on a mirror of the site. Nobody knows who has put it there, or "
        "when. It is kept here to see that the check finds it.\n\n" + quoted + "\n", "utf-8"
    )  # fmt: skip


def main() -> None:
    packages, out = Path(sys.argv[1]), Path(sys.argv[2])
    rng = random.Random(SEED)
    before = out / "scraped/locked.pdf"
    locked = before.read_bytes() if before.exists() else locked_pdf()
    for name in (
        "handbook",
        "faq",
        "reference",
        "manuals",
        "python",
        "poems",
        "markdown",
        "encodings",
        "scraped",
        "noise",
        "instructions",
    ):
        shutil.rmtree(out / name, ignore_errors=True)
    real_text(packages, out)
    other_encodings(packages, out)
    damage(out, rng, locked)
    noise(out)
    instructions(out, rng)
    for name in PACKAGES:
        notice = next((packages / name).glob("usr/share/doc/*/copyright"))
        copy(notice, out / "licences" / f"{name}.txt")


if __name__ == "__main__":
    main()
