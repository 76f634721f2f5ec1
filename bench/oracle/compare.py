"""Are two answers the same? By the semantics of types, not by bytes.

Rows are compared in order only where the query's order is total. Doubles may differ in their last digits.
Against MySQL exact numbers must be equal; against MariaDB, which gives quotients and averages
other scales, they may differ by one in the last digit that both show.
"""
from decimal import Decimal, InvalidOperation

import wire

# Relative, for doubles that were summed or computed in another order.
TOLERANCE = 1e-9


def number(raw):
    try:
        return Decimal(raw.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None


def close(a, b):
    x, y = float(a), float(b)
    return x == y or abs(x - y) <= TOLERANCE * max(abs(x), abs(y), 1e-3)


def trimmed(raw):
    """A moment without zeros at the end of its fraction."""
    return raw.rstrip(b"0").rstrip(b".") if b"." in raw and b":" in raw else raw


def same_value(a, b, kinds, exact):
    """`kinds`: the two columns' types on the wire."""
    if a == b:
        return True
    if a is None or b is None:
        return False
    real = any(k in wire.REAL for k in kinds)
    numeric = all(k in wire.REAL or k in wire.EXACT for k in kinds)
    if numeric:
        x, y = number(a), number(b)
        if x is None or y is None:
            return False
        if real:
            return close(x, y)
        if exact:
            # IF and CASE may show more decimals, see docs/differences.md.
            return x == y
        places = min(-x.as_tuple().exponent, -y.as_tuple().exponent)
        return abs(x - y) <= Decimal(1).scaleb(-places) or x == y
    if real:
        x, y = number(a), number(b)
        return x is not None and y is not None and close(x, y)
    if not exact and number(a) is not None and number(b) is not None and any(k in wire.EXACT for k in kinds):
        return number(a) == number(b)
    return not exact and trimmed(a) == trimmed(b)


def sort_key(row, kinds):
    key, exact = [], []
    for value, kind in zip(row, kinds):
        if value is None:
            key.append((0, "", b""))
            continue
        x = number(value) if any(k in wire.REAL or k in wire.EXACT for k in kind) else None
        key.append((1, f"{float(x):.6g}", b"") if x is not None else (2, "", trimmed(value)))
        if x is not None and all(k in wire.EXACT for k in kind):
            exact.append(x)
    # Numbers with so many digits in common, last.
    return key, exact


def same_rows(left, right, ordered, exact):
    """None, or what differs, in words."""
    if len(left.rows) != len(right.rows):
        return f"{len(left.rows)} rows, not {len(right.rows)}"
    if left.rows and len(left.types) != len(right.types):
        return f"{len(left.types)} columns, not {len(right.types)}"
    kinds = list(zip(left.types, right.types))
    same = lambda a, b: all(same_value(x, y, k, exact) for x, y, k in zip(a, b, kinds))
    a, b = left.rows, right.rows
    if not ordered:
        a, b = sorted(a, key=lambda r: sort_key(r, kinds)), sorted(b, key=lambda r: sort_key(r, kinds))
    wrong = [(x, y) for x, y in zip(a, b) if not same(x, y)]
    if not wrong:
        return None
    if not ordered and len(wrong) <= 400:
        # Doubles on both sides of a rounding border are sorted apart.
        rest = [y for _, y in wrong]
        for x, _ in wrong:
            found = next((n for n, y in enumerate(rest) if same(x, y)), None)
            if found is None:
                break
            rest.pop(found)
        else:
            return None
    x, y = wrong[0]
    return f"row {shown(x)}, not {shown(y)} ({len(wrong)} of {len(a)} rows)"


def shown(row):
    return "(" + ", ".join("NULL" if v is None else v.decode("utf8", "backslashreplace")[:60] for v in row) + ")"
