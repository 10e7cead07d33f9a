from sparsetoken._core.arrays import ByteCache


def test_the_least_recently_used_go_when_the_bytes_are_too_many():
    cache, made = ByteCache(10, len), []

    def get(key: str, size: int) -> str:
        return cache.get(key, lambda: made.append(key) or key * size)

    get("a", 4), get("b", 4), get("a", 4)
    assert made == ["a", "b"] and cache.bytes == 8
    get("c", 4)  # b goes: a was used after it
    assert cache.bytes == 8
    get("a", 4), get("b", 4)
    assert made == ["a", "b", "c", "b"]


def test_what_is_larger_than_the_limit_is_given_but_not_kept():
    cache = ByteCache(10, len)
    cache.get("small", lambda: "xx")
    assert cache.get("large", lambda: "x" * 11) == "x" * 11
    assert cache.bytes == 2
    cache.clear()
    assert cache.bytes == 0
