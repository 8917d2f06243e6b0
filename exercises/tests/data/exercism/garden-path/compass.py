def vector(step):
    pass
