// The official SDK of Anthropic.
import { answer, KEY, MAX_TOKENS, MESSAGES } from './calls.mjs';

await answer(async (name, url) => {
  const { default: Anthropic } = await import(name);
  const client = new Anthropic({ baseURL: url, apiKey: KEY });
  const request = (model) => ({ model, max_tokens: MAX_TOKENS, messages: MESSAGES });
  return {
    async stream(model) {
      const events = await Array.fromAsync(await client.messages.create({ ...request(model), stream: true }));
      const deltas = events.filter((event) => event.type === 'content_block_delta');
      return { text: deltas.map((event) => event.delta.text).join(''), last: events.at(-1).type };
    },
    async helper(model) {
      const stream = client.messages.stream(request(model));
      const events = await Array.fromAsync(stream);
      return { text: await stream.finalText(), last: events.at(-1).type };
    },
    async whole(model) {
      const message = await client.messages.create(request(model));
      return { text: message.content.map((block) => block.text).join(''), last: message.stop_reason };
    },
    async count(model) {
      const count = await client.messages.countTokens({ model, messages: MESSAGES });
      return { text: '', last: count.input_tokens };
    },
    async models() {
      const models = await Array.fromAsync(client.models.list());
      return { text: '', last: models.map((model) => model.id) };
    },
  };
});
