class Office:
    def __init__(self, *things):
        self.things = set(things)
        self.log = []

    def __enter__(self):
        self.log.append("open")
        return self

    def __exit__(self, *_):
        self.log.append("close")

    def take(self, thing):
        self.things.remove(thing)
        return thing
