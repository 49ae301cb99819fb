// Shows in Claude Code what Engram's hooks handed to Claude, and answers /engram. It reads what the hooks answered and
// passes that on unchanged: it hands nothing over itself, touches no tool call, and asks no model and no host.
const USAGE = '/engram QUERY searches · /engram wrong N, /engram pin N judge one (with “off” behind it: take that back)'
const BITE = /^- (?:\[(\S+?)\] )?(\d{4}-\d\d-\d\d.*)$/gm // a fix that only sessions show has no id
const COMMAND = { name: 'engram', argumentHint: '[QUERY]', description: 'What Engram handed to Claude' }
const AT_START = 'over at the start of the session'
const seen = [] // what passed since Claude Code started, the oldest first: {id, text, to}
let hasCommand = false

function note($, answer, to) {
  const ours = (answer?.additionalContext ?? []).filter((text) => text.includes('<engram-memories>'))
  const bites = ours.flatMap((text) => [...text.matchAll(BITE)]).map(([, id, text]) => ({ id: id ?? text, text, to }))
  // A session starts anew after each compaction: its lines are listed once, and quietly.
  seen.push(...bites.filter(({ id }) => to !== AT_START || !seen.some((one) => one.id === id && one.to === to)))
  if (bites.length === 0 || to === AT_START) return answer
  const [count, them] = bites.length === 1 ? ['1 memory', 'it'] : [`${bites.length} memories`, 'them']
  $.ui.log(`${count} handed ${to}${hasCommand ? ` · /engram shows ${them}` : ''}`)
  return answer
}

async function ask($, tool, given) {
  const server = await $.mcp.connect('engram')
  if (!server.isConnected) return `Engram's MCP server is not connected: ${server.message}`
  return (await $.mcp.call(server.server, tool, given)).content.map((block) => block.text ?? '').join('\n')
}

async function run($, args) {
  const [, verb, number, off] = args.match(/^(wrong|pin) #?(\d+)( off)?$/) ?? []
  if (args && !verb && !/^(wrong|pin|help)$/.test(args)) return ask($, 'memory_recall', { query: args })
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
  on('classic.SessionStart', async ($, e, next) => {
    return note($, await next(e), AT_START)
  }).catch(($, e, next) => next(e))
  on('classic.UserPromptSubmit', async ($, e, next) => {
    const answer = await next(e)
    return e.prompt.trimStart().startsWith('<task-notification') ? answer : note($, answer, 'over with your prompt')
  }).catch(($, e, next) => next(e))
  on('classic.SubagentStart', async ($, e, next) => {
    return note($, await next(e), `to the subagent ${e.agent_type}`)
  }).catch(($, e, next) => next(e))
  on('classic.PostToolUseFailure', async ($, e, next) => {
    return note($, await next(e), 'over after the error')
  }).catch(($, e, next) => next(e))
  on('command.run', { command: 'engram' }, async ($, e, next) => {
    return hasCommand ? { text: await run($, e.args.trim().replace(/\s+/g, ' ')), isTextDisplayOnly: true } : next(e)
  }).catch(($, e, next) => (next.called ? next(e) : { text: next.error.message ?? 'failed', isTextDisplayOnly: true }))
}
