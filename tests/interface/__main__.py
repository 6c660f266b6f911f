"""`python -m tests.interface`: writes the listings again. A line that goes or changes breaks a user's program."""

from tests.interface.listings import FOLDER, LISTINGS, written


def main() -> None:
    for name in LISTINGS:
        (FOLDER / name).write_text(written(name), encoding="utf-8")
        print(f"{FOLDER / name}: written")


if __name__ == "__main__":
    main()
