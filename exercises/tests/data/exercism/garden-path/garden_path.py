from compass import vector


def walk(path):
    pass
