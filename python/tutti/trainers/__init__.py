"""Adapters for trainers: each module here imports the trainer that it is for.

    tutti.trainers.megatron    token dispatchers of Megatron-Core
    tutti.trainers.titan       token dispatchers of torchtitan
"""
