from compass import vector


def walk(path):
    steps = [vector(step) for step in path]
    return sum(x for x, _ in steps), sum(y for _, y in steps)
