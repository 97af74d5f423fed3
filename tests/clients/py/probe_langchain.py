"""Asks through the chat models and embeddings of LangChain for Anthropic, OpenAI and Ollama."""

from functools import partial
from typing import Any

from calls import Mode, Told, make_calls
from langchain_anthropic import ChatAnthropic
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_openai import ChatOpenAI, OpenAIEmbeddings


def anthropic(url: str, model: str) -> BaseChatModel:
    return ChatAnthropic(model=model, base_url=url, api_key="x", max_tokens=16)


def openai(url: str, model: str) -> BaseChatModel:
    return ChatOpenAI(model=model, base_url=url + "/v1", api_key="x", max_tokens=16)


def openai_responses(url: str, model: str) -> BaseChatModel:
    return ChatOpenAI(model=model, base_url=url + "/v1", api_key="x", max_tokens=16, use_responses_api=True)


def ollama(url: str, model: str) -> BaseChatModel:
    return ChatOllama(model=model, base_url=url, num_predict=16)


def openai_vectors(url: str, model: str) -> Embeddings:
    """Without counting tokens, for which it would fetch a tokenizer."""
    return OpenAIEmbeddings(model=model, base_url=url + "/v1", api_key="x", check_embedding_ctx_length=False)


def ollama_vectors(url: str, model: str) -> Embeddings:
    return OllamaEmbeddings(model=model, base_url=url)


def stream(make: Any, url: str, model: str) -> Told:
    return told_of(list(make(url, model).stream("hi")))


async def astream(make: Any, url: str, model: str) -> Told:
    return told_of([chunk async for chunk in make(url, model).astream("hi")])


def invoke(make: Any, url: str, model: str) -> Told:
    return told_of([make(url, model).invoke("hi")])


async def ainvoke(make: Any, url: str, model: str) -> Told:
    return told_of([await make(url, model).ainvoke("hi")])


def embed(make: Any, url: str, model: str) -> Told:
    return {"text": str(make(url, model).embed_query("hi"))}


def told_of(chunks: list[Any]) -> Told:
    said = [chunk.response_metadata for chunk in chunks]
    ends = [one.get(key) for one in said for key in ("stop_reason", "finish_reason", "done_reason", "status")]
    return {"text": "".join(chunk.text for chunk in chunks), "last": next(end for end in reversed(ends) if end)}


CHATS = (anthropic, openai, openai_responses, ollama)
WAYS = (stream, astream, invoke, ainvoke)
MODES: dict[str, Mode] = {f"{make.__name__}_{way.__name__}": partial(way, make) for make in CHATS for way in WAYS} | {
    f"{make.__name__}_{embed.__name__}": partial(embed, make) for make in (openai_vectors, ollama_vectors)
}

if __name__ == "__main__":
    make_calls(MODES)
