def strikes(hour, minute):
    pass
