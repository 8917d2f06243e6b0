def receipt(items):
    lines = [*items, ("total", sum(cents for _, cents in items))]
    return "\n".join(f"{name} {cents // 100}.{cents % 100:02}" for name, cents in lines)
