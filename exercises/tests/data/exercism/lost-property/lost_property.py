def fetch(office, thing):
    pass
