def strikes(hour, minute):
    if minute == 30:
        return 1
    if minute:
        return 0
    return hour % 12 or 12
