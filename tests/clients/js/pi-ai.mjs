// pi-ai, below the agent pi: it streams only, and tells an error as the stop reason of its answer.
import { answer, KEY, MAX_TOKENS, PROMPT, Reported } from './calls.mjs';

await answer(async (name, url) => {
  const pi = await import(name);
  const ask = (api, baseUrl) => async (id) => {
    const model = {
      id,
      name: id,
      api,
      baseUrl,
      provider: 'llmgate',
      reasoning: false,
      input: ['text'],
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
      contextWindow: 8192,
      maxTokens: MAX_TOKENS,
    };
    const messages = [{ role: 'user', content: PROMPT, timestamp: Date.now() }];
    const context = { systemPrompt: 'You are brief.', messages };
    const options = { apiKey: KEY, maxTokens: MAX_TOKENS };
    // From 1.0 on each API is a module of its own.
    const stream = pi.stream
      ? pi.stream(model, context, options)
      : (await import(`${name}/api/${api}`)).stream(model, pi.normalizeContext(context), options);
    const events = await Array.fromAsync(stream);
    const message = await stream.result();
    if (['error', 'aborted'].includes(message.stopReason)) {
      throw new Reported(message.errorMessage, { retryable: pi.isRetryableAssistantError?.(message) });
    }
    const texts = message.content.filter((block) => block.type === 'text');
    return { text: texts.map((block) => block.text).join(''), last: events.at(-1).type + ' ' + message.stopReason };
  };
  return {
    'anthropic-messages': ask('anthropic-messages', url),
    'openai-completions': ask('openai-completions', url + '/v1'),
    'openai-responses': ask('openai-responses', url + '/v1'),
  };
});
