// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"maps"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

// preset is what is known of a kind of upstream. Each member can be overridden
// by the option of the same name in [Upstream].
type preset struct {
	// formats are what it is spoken to in. What clients speak besides is
	// translated to the first. A format that the server has, but in which it
	// reorders or drops things, is not among them.
	formats []wire.Format
	// official: a provider's own API, whose requests stay as they are.
	official bool
	// models go by these names there.
	models []ModelName
	// maxTokens bounds answers where the server's own bound is too low to work with.
	maxTokens int
	// drop are members of requests that the server trips over or has no use for.
	drop []string
	// body are members that each request gets.
	body map[string]string
	// reasoning is the name of an assistant message's thinking in requests, and
	// answers the one in answers.
	reasoning, answers string
	// counts is a format in whose API it counts tokens, though it is not spoken to
	// in it.
	counts wire.Format
	// cacheControl: it takes markers, and reports usage by them.
	cacheControl bool
	// reports: it tells how much of a prompt it found in its cache.
	reports bool
	// progress: it tells the length of a prompt before it answers, if it is asked to.
	progress bool
	// unlisted: it takes calls of tools that are not on the list of a request.
	unlisted bool
	// stateful: it keeps conversations, and makes prompts of them, itself.
	stateful bool
	// circular: its answers have ids that come again.
	circular bool
	// slots is how many requests the server batches, 0 for one at a time.
	slots int
}

const (
	reasoningContent = "reasoning_content" // what chat templates read
	reasoningAlias   = "reasoning"
	reasoningNone    = "none" // thinking does not go back
)

// hosted are members that only a hosted API has a use for.
var hosted = []string{"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "context_management"}

// Template arguments that switch thinking off. Qwen, GLM and Nemotron read the first name,
// DeepSeek, Kimi and Granite the second (SGLang's protocol.py, vLLM's reasoning_outputs.md).
const thinksNot = `{"enable_thinking":false,"thinking":false}`

// keepsThinking has templates that know of it (Qwen 3.6 and later) leave the
// thinking of earlier turns where it is. Others ignore it.
var keepsThinking = map[string]string{"chat_template_kwargs": `{"preserve_thinking":true}`}

// salted separates the prefix caches of tenants, for engines whose hash of a prefix takes
// cache_salt in. A shared one would tell by the time to the first token that another
// tenant has sent the same text.
var salted = map[string]string{"chat_template_kwargs": keepsThinking["chat_template_kwargs"], "cache_salt": `"` + saltPlaceholder + `"`}

// absent are names of hosted models, which no box has: to mlx_lm.server an
// unknown name is one to download.
var absent = []ModelName{
	{"claude-*", "default_model"}, {"gpt-5*", "default_model"}, {"gpt-6*", "default_model"}, {"gemini-*", "default_model"},
}

// Most boxes are spoken to in chat completions alone. Their Responses endpoints skip tools of the
// kinds custom and namespace, or refuse them, and hand the role developer to templates that do
// not know it (llama.cpp, LM Studio, Ollama, vLLM and its kin, read in November 2026).
var (
	chatOnly     = []wire.Format{wire.OpenAIChat}
	chatMessages = []wire.Format{wire.OpenAIChat, wire.Anthropic, wire.OpenAIResponses}
)

// presets are the kinds of upstreams by name. What the servers do was read from
// their sources and documentation of 2026, and for llama_cpp and ollama measured.
var presets = map[string]preset{
	"anthropic": {formats: []wire.Format{wire.Anthropic}, official: true, cacheControl: true, reports: true},
	"openai":    {formats: chatResponsesFirst, official: true, reports: true},
	"gemini":    {formats: []wire.Format{wire.Gemini, wire.Interactions, wire.OpenAIChat}, official: true, reports: true},
	// Claude at those who resell it: the Messages API under addresses of their own.
	"vertex":  {formats: []wire.Format{vertex.Format}, official: true, cacheControl: true, reports: true},
	"bedrock": {formats: []wire.Format{bedrock.Format}, official: true, cacheControl: true, reports: true},
	// Its chat completions forget a conversation when they restart, and begin an empty one.
	"letta": {formats: []wire.Format{wire.OpenAIResponses}, reports: true, stateful: true},

	// Takes a bound of 512 tokens for granted, a seed for a reason not to
	// cache, and calls thinking in answers otherwise than its templates do.
	"mlx_lm": {
		formats: chatOnly, models: absent, maxTokens: 32768, drop: append([]string{"seed"}, hosted...), body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningAlias, reports: true,
	},
	// Its Messages endpoint loses the cache (mlx-engine 327).
	"lm_studio": {
		formats: chatOnly, drop: hosted,
		reasoning: reasoningContent, answers: reasoningContent,
	},
	// Reports cached tokens to Messages clients that send markers, so they stay.
	"omlx": {
		formats: chatMessages, drop: hosted, body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningContent, cacheControl: true, reports: true,
	},
	// Its Messages endpoint puts text before tool results and drops thinking.
	"vllm_mlx": {
		formats: chatOnly, counts: wire.Anthropic, drop: hosted, body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningContent,
	},
	"rapid_mlx": {
		formats: chatMessages, drop: hosted, body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningContent, reports: true,
	},
	// Its parsers read calls without a look at the list of tools
	// (app/parsers/, extract_tool_calls), so that late ones may stand in a note.
	"mlx_openai_server": {
		formats: chatOnly, drop: hosted, body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningContent, reports: true, unlisted: true,
	},
	// One cached sequence, lost with every other request.
	"swift_lm": {
		formats: chatOnly, drop: hosted,
		reasoning: reasoningContent, answers: reasoningContent,
	},
	// Its Messages endpoint ignores tool_choice and puts system messages in front, and chat
	// completions have one of 999 ids (middleware/openai.go).
	"ollama": {
		formats: chatOnly, drop: hosted,
		reasoning: reasoningAlias, answers: reasoningAlias, circular: true,
	},
	// vLLM drops reasoning_content in requests (issue 38488) and has answered with reasoning
	// since 0.11.1 (pull request 27752). Its Messages endpoint moves system messages to the
	// front, and tells cached tokens only with --enable-prompt-tokens-details. The API server
	// batches 256 requests on small GPUs, more on large ones (engine/arg_utils.py).
	"vllm": {
		formats: chatOnly, counts: wire.Anthropic, drop: hosted, body: salted,
		reasoning: reasoningAlias, answers: reasoningAlias, slots: 256,
	},
	// SGLang's Messages endpoint drops thinking, and cached tokens are told only with
	// --enable-cache-report. The size of a batch depends on the memory.
	"sglang": {
		formats: chatOnly, counts: wire.Anthropic, drop: hosted, body: salted,
		reasoning: reasoningContent, answers: reasoningContent, slots: 256,
	},
	// Its Messages endpoint puts text before tool results and ignores id_slot.
	"llama_cpp": {
		formats: chatOnly, counts: wire.Anthropic, drop: hosted,
		body:      map[string]string{"chat_template_kwargs": keepsThinking["chat_template_kwargs"], "id_slot": `"{http.vars.llm_slot}"`},
		reasoning: reasoningContent, answers: reasoningContent, reports: true, progress: true,
	},
}

var chatResponsesFirst = []wire.Format{wire.OpenAIResponses, wire.OpenAIChat}

// presetNames are the names that [Upstream.Preset] takes.
var presetNames = slices.Sorted(maps.Keys(presets))

// preset returns what is known of the upstream before its own options. Of an
// upstream without a preset nothing is.
func (u *Upstream) preset() preset {
	if u == nil || u.Preset == "" {
		return preset{reports: true}
	}
	return presets[u.Preset]
}

// Unlisted reports whether the upstream takes calls of tools that are not on the list
// of a request.
func (u *Upstream) Unlisted() bool { return u.preset().unlisted }

// Slots returns how many requests the server works on at a time, 0 where that is one or
// not known.
func (u *Upstream) Slots() int { return u.preset().slots }

// Stateful reports whether the upstream keeps conversations itself, and makes the
// prompts of its model of them.
func (u *Upstream) Stateful() bool { return u.preset().stateful }

// Counts returns the format in which the upstream counts tokens though it is not
// spoken to in it, "" for none.
func (u *Upstream) Counts() wire.Format { return u.preset().counts }
