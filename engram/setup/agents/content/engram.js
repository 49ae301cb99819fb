// Shows in Claude Code what Engram's hooks handed to Claude, and answers /engram. It reads what the hooks answered and
// passes that on unchanged: it hands nothing over itself, touches no tool call, and asks no model and no host.
const USAGE = '/engram QUERY searches · /engram wrong N, /engram pin N judge one (with “off” behind it: take that back)'
const BITE = /^- \[(\S+?)\] (.+)$/gm
const COMMAND = { name: 'engram', argumentHint: '[QUERY]', description: 'What Engram handed to Claude' }
const seen = [] // what passed since Claude Code started, the oldest first: {id, text, to}
let hasCommand = false

function note($, answer, to) {
  const ours = (answer?.additionalContext ?? []).filter((text) => text.includes('<engram-memories>'))
  const bites = ours.flatMap((text) => [...text.matchAll(BITE)])
  if (bites.length === 0) return
  for (const [, id, text] of bites) seen.push({ id, text, to })
  const [count, them] = bites.length === 1 ? ['1 memory', 'it'] : [`${bites.length} memories`, 'them']
  $.ui.log(`${count} handed ${to}${hasCommand ? ` · /engram shows ${them}` : ''}`)
}

async function ask($, tool, given) {
  const server = await $.mcp.connect('engram')
  if (!server.isConnected) return `Engram's MCP server is not connected: ${server.message}`
  const { content } = await $.mcp.call(server.server, tool, given)
  return content.map((block) => block.text ?? '').join('\n')
}

async function run($, args) {
  const [, verb, number, off] = args.match(/^(wrong|pin) #?(\d+)( off)?$/) ?? []
  if (args && !verb) return ask($, 'memory_recall', { query: args })
  const lines = seen.map(({ text, to }, index) => `${index + 1}. ${text} (handed ${to})`)
  const all = [lines.length ? 'Handed to Claude:' : 'Nothing was handed to Claude yet.', ...lines, USAGE].join('\n')
  const { id } = seen[number - 1] ?? {}
  if (!id) return verb ? `There is no number ${number}. ${all}` : all
  if (!/^(ep|q)_/.test(id)) return `${number} is what your sessions show, and no memory: there is nothing to judge.`
  if (verb === 'pin') return ask($, 'memory_pin', { id, on: !off })
  return ask($, 'memory_feedback', { id, verdict: off ? 'take back' : 'wrong', why: 'judged with /engram' })
}

export const register = (on) => {
  on('session.start', async ($, e, next) => {
    hasCommand = !!(await $.command.register(COMMAND))
    return next(e)
  }).catch(($, e, next) => next(e))
  on('classic.UserPromptSubmit', async ($, e, next) => {
    const answer = await next(e)
    if (!e.prompt.trimStart().startsWith('<task-notification')) note($, answer, 'over with your prompt')
    return answer
  }).catch(($, e, next) => next(e))
  on('classic.SubagentStart', async ($, e, next) => {
    const answer = await next(e)
    note($, answer, `to the subagent ${e.agent_type}`)
    return answer
  }).catch(($, e, next) => next(e))
  on('classic.PostToolUseFailure', async ($, e, next) => {
    const answer = await next(e)
    note($, answer, 'over after the error')
    return answer
  }).catch(($, e, next) => next(e))
  on('command.run', { command: 'engram' }, async ($, e, next) => {
    return hasCommand ? { text: await run($, e.args.trim()), isTextDisplayOnly: true } : next(e)
  }).catch(($, e, next) => (next.called ? next(e) : { text: next.error.message ?? 'failed', isTextDisplayOnly: true }))
}
