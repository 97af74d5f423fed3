// The official SDK of OpenAI.
import { answer, KEY, MAX_TOKENS, MESSAGES, PROMPT } from './calls.mjs';

await answer(async (name, url) => {
  const { default: OpenAI } = await import(name);
  const client = new OpenAI({ baseURL: url + '/v1', apiKey: KEY });
  const request = (model) => ({ model, max_tokens: MAX_TOKENS, messages: MESSAGES });
  return {
    // The usual loop, which breaks on a chunk without choices.
    async chat_stream(model) {
      const chunks = await Array.fromAsync(await client.chat.completions.create({ ...request(model), stream: true }));
      const choices = chunks.map((chunk) => chunk.choices[0]);
      return { text: choices.map((choice) => choice.delta.content ?? '').join(''), last: choices.at(-1).finish_reason };
    },
    async chat_helper(model) {
      const completions = client.chat.completions.stream ? client.chat.completions : client.beta.chat.completions;
      const stream = completions.stream(request(model));
      await Array.fromAsync(stream);
      return ended((await stream.finalChatCompletion()).choices[0]);
    },
    async chat_whole(model) {
      return ended((await client.chat.completions.create(request(model))).choices[0]);
    },
    async completions_stream(model) {
      const asked = { model, max_tokens: MAX_TOKENS, prompt: PROMPT, stream: true };
      const chunks = await Array.fromAsync(await client.completions.create(asked));
      const choices = chunks.map((chunk) => chunk.choices[0]);
      return { text: choices.map((choice) => choice.text).join(''), last: choices.at(-1).finish_reason };
    },
    async responses_stream(model) {
      const events = await Array.fromAsync(await client.responses.create({ model, input: PROMPT, stream: true }));
      const deltas = events.filter((event) => event.type === 'response.output_text.delta');
      return { text: deltas.map((event) => event.delta).join(''), last: events.at(-1).type };
    },
    async responses_helper(model) {
      const stream = client.responses.stream({ model, input: PROMPT });
      const events = await Array.fromAsync(stream);
      // `output_text` is new in 5.
      const parts = (await stream.finalResponse()).output.flatMap((item) => item.content ?? []);
      return { text: parts.map((part) => part.text).join(''), last: events.at(-1).type };
    },
    async responses_whole(model) {
      const response = await client.responses.create({ model, input: PROMPT });
      return { text: response.output_text, last: response.status };
    },
    async embeddings(model) {
      const list = await client.embeddings.create({ model, input: PROMPT, encoding_format: 'float' });
      return { text: String(list.data[0].embedding), last: list.data.length };
    },
    async models() {
      const models = await Array.fromAsync(client.models.list());
      return { text: '', last: models.map((model) => model.id) };
    },
  };
});

function ended(choice) {
  return { text: choice.message.content, last: choice.finish_reason };
}
