"""An agent in ten lines. Start it, then: reachp2p call text.hello '{"name": "Ada"}'"""

from reachp2p import Agent, run

agent = Agent("demo/hello", version="1.0.0", tags={"env": "dev"})


@agent.capability("text.hello", repeatable=True)
async def hello(name: str, times: int = 1) -> dict:
    """Greet somebody."""
    return {"greeting": " ".join([f"Hello, {name}!"] * times)}


if __name__ == "__main__":
    run(agent, seeds=["127.0.0.1:7946"])
