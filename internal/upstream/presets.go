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

// preset describes a kind of upstream. The option of the same name in [Upstream] overrides each
// member.
type preset struct {
	// Requests in another format are translated to the first one. A format in which the server reorders or drops
	// content is not listed.
	formats []wire.Format
	// official marks a provider's own API, for which requests stay unmodified.
	official bool
	// hosted marks a billed API that speaks other vendors' formats. Neither official nor hosted is a
	// local server.
	hosted bool
	// Each * in hosts stands for any characters.
	hosts []string
	// bases replace /v1, by format.
	bases map[wire.Format]string
	// The conversation's name brings its requests to the server with its cache. The client's own wins.
	sessionHeader, sessionMember string
	// thinks reports that an assistant message with calls must have its thinking, even if empty.
	thinks bool
	// off has the members that turn thinking off in chat completions.
	off    map[string]string
	models []ModelName
	// maxTokens bounds answers if the server's own bound is too low to work with.
	maxTokens int
	// maxTokensOnly reports that the server refuses max_completion_tokens, the newer name of max_tokens.
	maxTokensOnly bool
	// drop are members of requests that the server mishandles or does not need, body added ones.
	drop []string
	body map[string]string
	// reasoning is the name of the thinking in assistant messages of requests, answers the one in
	// responses.
	reasoning, answers string
	// counts is a format for token counting only, "" for none.
	counts wire.Format
	// cacheControl reports that the server takes markers and reports usage by them.
	cacheControl bool
	// reports is set if the server reports cached tokens.
	reports bool
	// progress reports that the server sends the prompt's length before its answer, on request.
	progress bool
	// unlisted is set if the server accepts calls of tools outside the request's list.
	unlisted bool
	// stateful is set if the server stores conversations and builds the prompts itself.
	stateful bool
	// circular reports that ids of responses repeat.
	circular bool
	// slots is the size of a batch, 0 for one request at a time.
	slots int
}

const (
	reasoningContent = "reasoning_content" // for chat templates
	reasoningAlias   = "reasoning"
	reasoningNone    = "none" // thinking of earlier turns is removed
)

// Members that OpenAI's own API takes. Groq and Mistral refuse members that they do not know. For the
// other hosts no source says so, and they are left out for safety: none has a use for them.
var (
	ownMembers = []string{"store", "safety_identifier", "prompt_cache_retention", "context_management"}
	ownAndKey  = append([]string{"prompt_cache_key"}, ownMembers...)
	// Mistral answers an unknown member with 422. Its streams report usage without being asked.
	ownAndMore = append([]string{
		"service_tier", "seed", "stream_options", "user", "verbosity", templateArguments,
	}, ownMembers...)
)

// hosted lists members that only hosted APIs use.
var hosted = []string{
	"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
	"prompt_cache_retention", "context_management",
}

// thinksNot has template arguments that turn thinking off. Qwen, GLM and Nemotron read the first
// name, DeepSeek, Kimi and Granite the second (SGLang's protocol.py, vLLM's reasoning_outputs.md).
const thinksNot = `{"enable_thinking":false,"thinking":false}`

// noEffort turns thinking off at servers that read the member of OpenAI's API.
var noEffort = map[string]string{"reasoning_effort": `"none"`}

// keepsThinking makes chat templates that support the argument (Qwen 3.6 and later) keep the
// thinking of earlier turns. Other templates ignore it.
var keepsThinking = map[string]string{"chat_template_kwargs": `{"preserve_thinking":true}`}

// salted separates the prefix caches of tenants, for engines that hash cache_salt into a prefix. In
// a shared cache, the time to the first token would reveal that another tenant has sent the same
// text.
var salted = map[string]string{
	"chat_template_kwargs": keepsThinking["chat_template_kwargs"],
	"cache_salt":           `"` + saltPlaceholder + `"`,
}

// absent lists hosted models, which no local server has: mlx_lm.server would download a model with
// an unknown name.
var absent = []ModelName{
	{"claude-*", "default_model"}, {"gpt-5*", "default_model"}, {"gpt-6*", "default_model"}, {"gemini-*", "default_model"},
}

// Local servers get no requests of the Responses API. Their endpoints skip or refuse tools of the kinds custom and
// namespace, or pass the role developer to templates that do not know it (llama.cpp, LM Studio, Ollama, vLLM and its
// kin, oMLX's convert_responses_tools, Rapid-MLX's SUPPORTED_RESPONSES_TOOL_TYPES, read in November 2026).
var (
	chatOnly     = []wire.Format{wire.OpenAIChat}
	chatMessages = []wire.Format{wire.OpenAIChat, wire.Anthropic}
)

// presets are the kinds of upstreams by name. The servers' behavior was read from their sources and
// documentation of 2026, and measured for llama_cpp and ollama.
var presets = map[string]preset{
	"anthropic": {
		formats: []wire.Format{wire.Anthropic}, official: true, cacheControl: true, reports: true,
		// Claude Platform on AWS, and Claude Models on Google Cloud that Anthropic manages, are the
		// same API.
		hosts: []string{"api.anthropic.com", "aws-external-anthropic.*.api.aws", "claude.googleapis.com"},
	},
	"openai": {formats: chatResponsesFirst, official: true, reports: true, hosts: []string{"api.openai.com"}},
	"azure": {
		formats: chatResponsesFirst, official: true, reports: true,
		hosts: []string{"*.openai.azure.com", "*.services.ai.azure.com"},
		bases: map[wire.Format]string{wire.OpenAIResponses: "/openai/v1", wire.OpenAIChat: "/openai/v1"},
	},
	"gemini": {
		formats: []wire.Format{wire.Gemini, wire.Interactions, wire.OpenAIChat}, official: true, reports: true,
		hosts: []string{"generativelanguage.googleapis.com"},
	},
	// Claude at resellers: the Messages API under other addresses.
	"vertex": {
		formats: []wire.Format{vertex.Format}, official: true, cacheControl: true, reports: true,
		hosts: []string{"aiplatform.googleapis.com", "*-aiplatform.googleapis.com"},
	},
	"bedrock": {
		formats: []wire.Format{bedrock.Format}, official: true, cacheControl: true, reports: true,
		hosts: []string{"bedrock-runtime.*.amazonaws.com", "bedrock-mantle.*.api.aws"},
	},

	// Providers of many models. The sources of these rows and their dates are in
	// docs/reference/providers.md.

	"deepseek": {
		formats: []wire.Format{wire.OpenAIChat, wire.Anthropic}, hosted: true, reports: true,
		hosts: []string{"api.deepseek.com"},
		bases: map[wire.Format]string{wire.Anthropic: "/anthropic/v1"}, drop: ownAndKey,
		reasoning: reasoningContent, thinks: true, off: map[string]string{"thinking": `{"type":"disabled"}`},
	},
	"moonshot": {
		formats: []wire.Format{wire.OpenAIChat, wire.Anthropic, wire.OpenAIResponses}, hosted: true, reports: true,
		hosts: []string{"api.moonshot.ai", "api.moonshot.cn"},
		bases: map[wire.Format]string{wire.Anthropic: "/anthropic/v1"}, drop: ownMembers,
		reasoning: reasoningContent, sessionMember: "prompt_cache_key",
	},
	"zai": {
		formats: []wire.Format{wire.OpenAIChat, wire.Anthropic}, hosted: true, reports: true,
		hosts: []string{"api.z.ai", "open.bigmodel.cn"},
		bases: map[wire.Format]string{wire.OpenAIChat: "/api/paas/v4", wire.Anthropic: "/api/anthropic/v1"}, drop: ownAndKey,
		reasoning: reasoningContent,
	},
	// Messages come first: the translation marks their end, and without a marker nothing is sure to
	// be cached.
	"qwen": {
		formats: []wire.Format{wire.Anthropic, wire.OpenAIChat}, hosted: true, reports: true, cacheControl: true,
		// Workspaces have hosts of their own since 2026.
		hosts: []string{
			"dashscope.aliyuncs.com", "dashscope-*.aliyuncs.com", "*.dashscope.aliyuncs.com", "*.maas.aliyuncs.com",
		},
		bases:     map[wire.Format]string{wire.OpenAIChat: "/compatible-mode/v1", wire.Anthropic: "/apps/anthropic/v1"},
		drop:      ownAndKey,
		reasoning: reasoningContent,
	},
	"minimax": {
		formats: []wire.Format{wire.Anthropic, wire.OpenAIChat}, hosted: true, reports: true, cacheControl: true,
		hosts: []string{"api.minimax.io", "api.minimaxi.com"},
		bases: map[wire.Format]string{wire.Anthropic: "/anthropic/v1"}, drop: ownAndKey,
	},
	"xai": {
		formats: []wire.Format{wire.OpenAIChat, wire.OpenAIResponses}, hosted: true, reports: true,
		hosts: []string{"api.x.ai"},
		drop:  ownAndKey, sessionHeader: "X-Grok-Conv-Id",
	},
	"mistral": {
		formats: chatOnly, hosted: true, reports: true, hosts: []string{"api.mistral.ai"},
		drop: ownAndMore, reasoning: reasoningNone, sessionMember: "prompt_cache_key", maxTokensOnly: true,
	},
	// Markers go on to Claude, Gemini, Qwen, MiniMax and GLM.
	"openrouter": {
		formats: []wire.Format{wire.OpenAIChat, wire.Anthropic, wire.OpenAIResponses}, hosted: true, reports: true,
		cacheControl: true,
		hosts:        []string{"openrouter.ai"},
		bases: map[wire.Format]string{
			wire.OpenAIChat: "/api/v1", wire.Anthropic: "/api/v1", wire.OpenAIResponses: "/api/v1",
		},
		drop:      ownMembers,
		reasoning: reasoningAlias, sessionMember: "session_id",
	},
	"groq": {
		formats: chatOnly, hosted: true, reports: true, hosts: []string{"api.groq.com"},
		bases:     map[wire.Format]string{wire.OpenAIChat: "/openai/v1"},
		drop:      append([]string{"verbosity", templateArguments}, ownAndKey...),
		reasoning: reasoningAlias,
	},
	"together": {
		formats: chatOnly, hosted: true, reports: true, hosts: []string{"api.together.ai", "api.together.xyz"},
		drop: ownAndKey, reasoning: reasoningAlias,
	},
	"fireworks": {
		formats: []wire.Format{wire.OpenAIChat, wire.Anthropic}, hosted: true, reports: true,
		hosts: []string{"api.fireworks.ai"},
		bases: map[wire.Format]string{wire.OpenAIChat: "/inference/v1", wire.Anthropic: "/inference/v1"}, drop: ownMembers,
		reasoning: reasoningContent, sessionHeader: "X-Session-Affinity",
	},

	// Letta's chat completions forget a conversation on a restart and begin an empty one.
	"letta": {formats: []wire.Format{wire.OpenAIResponses}, reports: true, stateful: true},

	// Bounds answers at 512 tokens by default, does not cache requests with a seed, and names
	// thinking in answers otherwise than its templates do.
	"mlx_lm": {
		formats: chatOnly, models: absent, maxTokens: 32768, drop: append([]string{"seed"}, hosted...), body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningAlias, reports: true,
	},
	// LM Studio's Messages endpoint loses the cache (mlx-engine 327).
	"lm_studio": {
		formats: chatOnly, drop: hosted, off: noEffort,
		reasoning: reasoningContent, answers: reasoningContent,
	},
	// Reports cached tokens to Messages clients that send markers, so markers stay.
	"omlx": {
		formats: chatMessages, drop: hosted, body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningContent, cacheControl: true, reports: true,
	},
	// The Messages endpoint puts text before tool results and drops thinking.
	"vllm_mlx": {
		formats: chatOnly, counts: wire.Anthropic, drop: hosted, body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningContent,
	},
	"rapid_mlx": {
		formats: chatMessages, drop: hosted, body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningContent, reports: true,
	},
	// The parsers read calls without looking at the list of tools (app/parsers/,
	// extract_tool_calls), so a note may declare late tools.
	"mlx_openai_server": {
		formats: chatOnly, drop: hosted, body: keepsThinking,
		reasoning: reasoningContent, answers: reasoningContent, reports: true, unlisted: true,
	},
	// One cached sequence, lost with every other request.
	"swift_lm": {
		formats: chatOnly, drop: hosted,
		reasoning: reasoningContent, answers: reasoningContent,
	},
	// The Messages endpoint ignores tool_choice and moves system messages to the front. Chat
	// completions have one of 999 ids (middleware/openai.go).
	"ollama": {
		formats: chatOnly, drop: hosted, off: noEffort,
		reasoning: reasoningAlias, answers: reasoningAlias, circular: true,
	},
	// vLLM drops reasoning_content in requests (issue 38488) and has answered with reasoning since
	// 0.11.1 (pull request 27752). Its Messages endpoint moves system messages to the front, and
	// reports cached tokens only with --enable-prompt-tokens-details. The API server batches 256
	// requests on small GPUs, more on large ones (engine/arg_utils.py).
	"vllm": {
		formats: chatOnly, counts: wire.Anthropic, drop: hosted, body: salted,
		reasoning: reasoningAlias, answers: reasoningAlias, slots: 256,
	},
	// SGLang's Messages endpoint drops thinking, and the server reports cached tokens only with
	// --enable-cache-report. The size of a batch depends on the memory.
	"sglang": {
		formats: chatOnly, counts: wire.Anthropic, drop: hosted, body: salted,
		reasoning: reasoningContent, answers: reasoningContent, slots: 256,
	},
	// The Messages endpoint puts text before tool results and ignores id_slot.
	"llama_cpp": {
		formats: chatOnly, counts: wire.Anthropic, drop: hosted,
		body: map[string]string{
			"chat_template_kwargs": keepsThinking["chat_template_kwargs"],
			"id_slot":              `"{http.vars.llm_slot}"`,
		},
		reasoning: reasoningContent, answers: reasoningContent, reports: true, progress: true,
	},
}

var chatResponsesFirst = []wire.Format{wire.OpenAIResponses, wire.OpenAIChat}

var presetNames = slices.Sorted(maps.Keys(presets))

func (u *Upstream) preset() preset {
	if u == nil || u.Preset == "" {
		// An unspecified upstream is assumed to report cached tokens.
		return preset{reports: true}
	}
	return presets[u.Preset]
}

// Unlisted reports whether the upstream accepts calls of tools that the request does not list.
func (u *Upstream) Unlisted() bool { return u.preset().unlisted }

// Slots returns how many requests the server works on at a time, 0 if it is one or unknown.
func (u *Upstream) Slots() int { return u.preset().slots }

// Counts returns the format that the upstream supports for token counting only, "" for none.
func (u *Upstream) Counts() wire.Format { return u.preset().counts }
