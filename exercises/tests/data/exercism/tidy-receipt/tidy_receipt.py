def receipt(items):
    out = ""
    total = 0
    for i in range(0, len(items)):
        name = items[i][0]
        cents = items[i][1]
        total = total + cents
        out = out + name
        out = out + " "
        out = out + str(cents // 100)
        out = out + "."
        if cents % 100 < 10:
            out = out + "0"
        out = out + str(cents % 100)
        out = out + "\n"
    out = out + "total "
    out = out + str(total // 100)
    out = out + "."
    if total % 100 < 10:
        out = out + "0"
    out = out + str(total % 100)
    return out
