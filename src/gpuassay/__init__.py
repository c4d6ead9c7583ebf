"""GPUassay: is this GPU cluster what it was sold as?"""
