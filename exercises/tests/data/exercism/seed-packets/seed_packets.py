def packets(seeds):
    pass