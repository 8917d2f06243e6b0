def fetch(office, thing):
    with office:
        try:
            return office.take(thing)
        except KeyError:
            return None
