// The official client of Ollama.
import { answer, MAX_TOKENS, MESSAGES, PROMPT } from './calls.mjs';

await answer(async (name, url) => {
  const { Ollama } = await import(name);
  const client = new Ollama({ host: url });
  const options = { num_predict: MAX_TOKENS };
  return {
    async chat_stream(model) {
      const parts = await Array.fromAsync(await client.chat({ model, messages: MESSAGES, options, stream: true }));
      return { text: parts.map((part) => part.message.content).join(''), last: parts.at(-1).done_reason };
    },
    async chat_whole(model) {
      const answered = await client.chat({ model, messages: MESSAGES, options });
      return { text: answered.message.content, last: answered.done_reason };
    },
    async generate_stream(model) {
      const parts = await Array.fromAsync(await client.generate({ model, prompt: PROMPT, options, stream: true }));
      return { text: parts.map((part) => part.response).join(''), last: parts.at(-1).done_reason };
    },
    async generate_whole(model) {
      const answered = await client.generate({ model, prompt: PROMPT, options });
      return { text: answered.response, last: answered.done_reason };
    },
    async models() {
      return { text: '', last: (await client.list()).models.map((model) => model.model) };
    },
  };
});
