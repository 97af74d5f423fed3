// The AI SDK of Vercel and its providers: PACKAGE is `ai` or, with the providers of the same age, `ai-6`.
import { answer, KEY, MAX_TOKENS, PROMPT } from './calls.mjs';

await answer(async (name, url) => {
  const prefix = name === 'ai' ? '@ai-sdk/' : name + '-';
  const { generateText, streamText } = await import(name);
  const { createAnthropic } = await import(prefix + 'anthropic');
  const { createOpenAI } = await import(prefix + 'openai');
  const { createOpenAICompatible } = await import(prefix + 'openai-compatible');
  const settings = { baseURL: url + '/v1', apiKey: KEY };
  const openai = createOpenAI(settings);
  const compatible = createOpenAICompatible({ ...settings, name: 'llmgate' });
  const models = { anthropic: createAnthropic(settings), chat: openai.chat, responses: openai.responses, compatible };
  const request = (model) => ({ model, prompt: PROMPT, maxOutputTokens: MAX_TOKENS });

  const stream = (kind) => async (id) => {
    const streamed = streamText({ ...request(models[kind](id)), onError() {} });
    const parts = await Array.fromAsync(streamed.fullStream);
    const failed = parts.find((part) => part.type === 'error');
    if (failed) throw failed.error;
    const deltas = parts.filter((part) => part.type === 'text-delta');
    return { text: deltas.map((part) => part.text).join(''), last: parts.at(-1).type + ' ' + parts.at(-1).finishReason };
  };
  const whole = (kind) => async (id) => {
    const answered = await generateText(request(models[kind](id)));
    return { text: answered.text, last: answered.finishReason };
  };
  return Object.fromEntries(
    Object.keys(models).flatMap((kind) => [
      [kind + '_stream', stream(kind)],
      [kind + '_whole', whole(kind)],
    ]),
  );
});
