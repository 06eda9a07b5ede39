"""stable-baselines3: PPO, DQN and SAC learn for a while, are saved and loaded."""

import tempfile

import gymnasium
import numpy as np
from stable_baselines3 import DQN, PPO, SAC

for kind, task, options in (
    (PPO, "CartPole-v1", dict(n_steps=64, batch_size=32)),
    (DQN, "CartPole-v1", dict(learning_starts=50, train_freq=4)),
    (SAC, "Pendulum-v1", dict(learning_starts=50, batch_size=32)),
):
    model = kind("MlpPolicy", task, seed=0, device="cpu", policy_kwargs=dict(net_arch=[16]), **options)
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(192)
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        again = kind.load(f"{folder}/model", device="cpu")
    observation, _ = gymnasium.make(task).reset(seed=1)
    np.testing.assert_allclose(
        model.predict(observation, deterministic=True)[0], again.predict(observation, deterministic=True)[0], rtol=1e-5
    )
