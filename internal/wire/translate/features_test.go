// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// feature is an option or content of a request: its form in each format, and a check of the output.
// A format without an entry does not support the feature.
type feature struct {
	name string
	say  map[wire.Format]string
	kept func(q *translate.Request) bool
}

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// The four request bodies: %s is the addition to a plain question.
var plainBody = map[wire.Format]string{
	wire.Anthropic:  `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]%s}`,
	wire.OpenAIChat: `{"model":"m","messages":[{"role":"user","content":"Hi"}]%s}`,
	wire.OpenAIResponses: `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text",` +
		`"text":"Hi"}]}]%s}`,
	wire.Gemini:       `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]%s}`,
	wire.Interactions: `{"model":"m","input":[{"type":"user_input","content":[{"type":"text","text":"Hi"}]}]%s}`,
}

var (
	anthropicTool = `{"name":"f","description":"d","input_schema":{"type":"object","properties":{"z":{"type":"number"},` +
		`"a":{"type":"string"}}}}`
	chatTool = `{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",` +
		`"properties":{"z":{"type":"number"},"a":{"type":"string"}}}}}`
	responsesTool = `{"type":"function","name":"f","description":"d","parameters":{"type":"object",` +
		`"properties":{"z":{"type":"number"},"a":{"type":"string"}}},"strict":false}`
	geminiTool = `{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT",` +
		`"properties":{"z":{"type":"NUMBER"},"a":{"type":"STRING"}}}}]}`
	stepsTool = `{"type":"function","name":"f","description":"d","parameters":{"type":"object",` +
		`"properties":{"z":{"type":"number"},"a":{"type":"string"}}}}`
)

// with returns the plain bodies, with an addition in the named formats.
func with(add map[wire.Format]string) map[wire.Format]string {
	out := map[wire.Format]string{}
	for f, s := range add {
		if s != "" {
			s = "," + s
		}
		out[f] = strings.Replace(plainBody[f], "%s", s, 1)
	}
	return out
}

// tool returns the bodies with one tool and an addition.
func tool(more map[wire.Format]string) map[wire.Format]string {
	tools := map[wire.Format]string{
		wire.Anthropic: `"tools":[` + anthropicTool + `]`, wire.OpenAIChat: `"tools":[` + chatTool + `]`,
		wire.OpenAIResponses: `"tools":[` + responsesTool + `]`, wire.Gemini: `"tools":[` + geminiTool + `]`,
		wire.Interactions: `"tools":[` + stepsTool + `]`,
	}
	for f := range tools {
		s, ok := more[f]
		if !ok {
			delete(tools, f)
		} else if s != "" {
			tools[f] += "," + s
		}
	}
	return with(tools)
}

// asking returns the bodies with this content in the only user message.
func asking(content map[wire.Format]string) map[wire.Format]string {
	out := map[wire.Format]string{}
	for f, s := range content {
		switch f {
		case wire.Anthropic:
			out[f] = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":[` + s + `]}]}`
		case wire.OpenAIChat:
			out[f] = `{"model":"m","messages":[{"role":"user","content":[` + s + `]}]}`
		case wire.OpenAIResponses:
			out[f] = `{"model":"m","input":[{"type":"message","role":"user","content":[` + s + `]}]}`
		case wire.Gemini:
			out[f] = `{"contents":[{"role":"user","parts":[` + s + `]}]}`
		case wire.Interactions:
			out[f] = `{"model":"m","input":[` + s + `]}`
		}
	}
	return out
}

// talk returns bodies with these messages, and a tool.
func talk(messages map[wire.Format]string) map[wire.Format]string {
	out := map[wire.Format]string{}
	for f, s := range messages {
		switch f {
		case wire.Anthropic:
			out[f] = `{"model":"m","max_tokens":100,"tools":[` + anthropicTool + `],"messages":[` + s + `]}`
		case wire.OpenAIChat:
			out[f] = `{"model":"m","tools":[` + chatTool + `],"messages":[` + s + `]}`
		case wire.OpenAIResponses:
			out[f] = `{"model":"m","tools":[` + responsesTool + `],"input":[` + s + `]}`
		case wire.Gemini:
			out[f] = `{"tools":[` + geminiTool + `],"contents":[` + s + `]}`
		case wire.Interactions:
			out[f] = `{"model":"m","tools":[` + stepsTool + `],"input":[` + s + `]}`
		}
	}
	return out
}

func always(*translate.Request) bool { return true }

// find reports whether the messages have a part of some kind.
func find(q *translate.Request, f func(m translate.Message, p translate.Part) bool) bool {
	for _, m := range q.Messages {
		for _, p := range m.Parts {
			if f(m, p) {
				return true
			}
			for _, c := range p.Content {
				if f(m, c) {
					return true
				}
			}
		}
	}
	return false
}

func media(kind, data, url string) func(*translate.Request) bool {
	return func(q *translate.Request) bool {
		return find(q, func(_ translate.Message, p translate.Part) bool {
			return p.Kind == translate.MediaPart && strings.HasPrefix(p.Media.Type, kind) && string(p.Media.Data) == data &&
				string(p.Media.URL) == url
		})
	}
}

func param(p translate.Param, value string) func(*translate.Request) bool {
	return func(q *translate.Request) bool { return string(q.Params[p]) == value }
}

// features are the rows of the table in docs/reference/formats.md.
var features = requestFeatures()

func requestFeatures() []feature {
	const (
		a = wire.Anthropic
		c = wire.OpenAIChat
		r = wire.OpenAIResponses
		g = wire.Gemini
		n = wire.Interactions
	)
	type say = map[wire.Format]string
	return []feature{
		{"text", with(say{a: ``, c: ``, r: ``, g: ``, n: ``}), func(q *translate.Request) bool {
			return find(q, func(m translate.Message, p translate.Part) bool {
				return m.Role == translate.User && string(p.Text) == "Hi"
			})
		}},
		{"streamed answer", with(say{
			a: `"stream":true`, c: `"stream":true,"stream_options":{"include_usage":true}`,
			r: `"stream":true`, g: ``, n: `"stream":true`,
		}), func(q *translate.Request) bool { return q.Stream }},
		{
			"system prompt", with(say{
				a: `"system":"Be kind"`, r: `"instructions":"Be kind"`,
				g: `"systemInstruction":{"parts":[{"text":"Be kind"}]}`, n: `"system_instruction":"Be kind"`,
				c: `"messages":[{"role":"system","content":"Be kind"},{"role":"user","content":"Hi"}]`,
			}),
			func(q *translate.Request) bool { return string(translate.Joined(q.System)) == "Be kind" },
		},
		{"system message in the middle", talk(say{
			a: `{"role":"user","content":"Hi"},{"role":"system","content":"Now hurry"}`,
			c: `{"role":"user","content":"Hi"},{"role":"system","content":"Now hurry"}`,
			r: `{"role":"user","content":"Hi"},{"role":"developer","content":"Now hurry"}`,
		}), func(q *translate.Request) bool {
			return find(q, func(m translate.Message, p translate.Part) bool {
				return m.Role != translate.Assistant && strings.Contains(p.Text.Decoded(), "Now hurry")
			})
		}},
		{"system prompt and nothing else", say{
			c: `{"model":"m","messages":[{"role":"system","content":"Be kind"}]}`,
			r: `{"model":"m","input":[{"role":"developer","content":"Be kind"}]}`,
		}, func(q *translate.Request) bool { return string(translate.Joined(q.System)) == "Be kind" }},
		{"conversation that the model begins", talk(say{
			c: `{"role":"assistant","content":"Hello"},{"role":"user","content":"Hi"}`,
			r: `{"role":"assistant","content":"Hello"},{"role":"user","content":"Hi"}`,
			g: `{"role":"model","parts":[{"text":"Hello"}]},{"role":"user","parts":[{"text":"Hi"}]}`,
			n: `{"type":"model_output","content":[{"type":"text","text":"Hello"}]},{"type":"user_input",` +
				`"content":[{"type":"text","text":"Hi"}]}`,
		}), func(q *translate.Request) bool {
			return find(q, func(m translate.Message, p translate.Part) bool {
				return m.Role == translate.Assistant && string(p.Text) == "Hello"
			})
		}},
		{
			"no answer, only the cache filled",
			say{a: `{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"Hi"}]}`},
			param(translate.MaxTokens, "1"),
		},
		{
			"maximal length", with(say{
				a: ``, c: `"max_completion_tokens":100`, r: `"max_output_tokens":100`,
				g: `"generationConfig":{"maxOutputTokens":100}`, n: `"generation_config":{"max_output_tokens":100}`,
			}),
			param(translate.MaxTokens, "100"),
		},
		{
			"temperature", with(say{
				a: `"temperature":0.5`, c: `"temperature":0.5`, r: `"temperature":0.5`,
				g: `"generationConfig":{"temperature":0.5}`, n: `"generation_config":{"temperature":0.5}`,
			}),
			param(translate.Temperature, "0.5"),
		},
		{"top_p", with(say{
			a: `"top_p":0.5`, c: `"top_p":0.5`, r: `"top_p":0.5`, g: `"generationConfig":{"topP":0.5}`,
			n: `"generation_config":{"top_p":0.5}`,
		}), param(translate.TopP, "0.5")},
		{"top_k", with(say{a: `"top_k":5`, g: `"generationConfig":{"topK":5}`}), param(translate.TopK, "5")},
		{
			"seed", with(say{c: `"seed":7`, g: `"generationConfig":{"seed":7}`, n: `"generation_config":{"seed":7}`}),
			param(translate.Seed, "7"),
		},
		{
			"penalties", with(say{c: `"presence_penalty":0.5`, g: `"generationConfig":{"presencePenalty":0.5}`}),
			param(translate.PresencePenalty, "0.5"),
		},
		{
			"stop sequences", with(say{
				a: `"stop_sequences":["END"]`, c: `"stop":"END"`,
				g: `"generationConfig":{"stopSequences":["END"]}`, n: `"generation_config":{"stop_sequences":["END"]}`,
			}),
			func(q *translate.Request) bool {
				return len(q.Stop) == 1 && string(q.Stop[0]) == "END"
			},
		},
		{"several answers", with(say{c: `"n":2`, g: `"generationConfig":{"candidateCount":2}`}), always},
		{"log probabilities", with(say{
			c: `"logprobs":true`, r: `"top_logprobs":2`,
			g: `"generationConfig":{"responseLogprobs":true}`,
		}), always},
		{"tools", tool(say{a: ``, c: ``, r: ``, g: ``, n: ``}), func(q *translate.Request) bool {
			return len(q.Tools) == 1 && q.Tools[0].Name == "f" &&
				string(q.Tools[0].Schema) == `{"type":"object","properties":{"z":{"type":"number"},"a":{"type":"string"}}}`
		}},
		{"strict tools", with(say{
			a: `"tools":[` + strings.TrimSuffix(anthropicTool, "}") + `,"strict":true}]`,
			c: `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}]`,
			r: `"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}]`,
		}), func(q *translate.Request) bool { return len(q.Tools) == 1 && q.Tools[0].Strict.IsTrue() }},
		{"a tool must be called", tool(say{
			a: `"tool_choice":{"type":"any"}`, c: `"tool_choice":"required"`,
			r: `"tool_choice":"required"`, g: `"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`,
			n: `"generation_config":{"tool_choice":"any"}`,
		}), func(q *translate.Request) bool { return q.Choice.Mode == "any" }},
		{"this tool must be called", tool(say{
			a: `"tool_choice":{"type":"tool","name":"f"}`, c: `"tool_choice":{"type":"function","function":{"name":"f"}}`,
			r: `"tool_choice":{"type":"function","name":"f"}`,
			g: `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`,
			n: `"generation_config":{"tool_choice":{"allowed_tools":{"mode":"any","tools":["f"]}}}`,
		}), func(q *translate.Request) bool {
			return q.Choice.Mode == "any" && len(q.Choice.Tools) == 1 && q.Choice.Tools[0].Name == "f"
		}},
		{
			"no tool may be called", tool(say{
				a: `"tool_choice":{"type":"none"}`, c: `"tool_choice":"none"`,
				r: `"tool_choice":"none"`, g: `"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}`,
				n: `"generation_config":{"tool_choice":"none"}`,
			}),
			func(q *translate.Request) bool { return q.Choice.Mode == "none" },
		},
		{
			"one call at a time", tool(say{
				a: `"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`,
				c: `"parallel_tool_calls":false`, r: `"parallel_tool_calls":false`,
			}),
			func(q *translate.Request) bool { return q.Choice.Single },
		},
		{"parallel calls and their results", talk(say{
			a: `{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"Look"},` +
				`{"type":"tool_use","id":"t1","name":"f","input":{"z":1.50,"a":"x"}},{"type":"tool_use","id":"t2","name":"f",` +
				`"input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},` +
				`{"type":"tool_result","tool_use_id":"t2","content":"two"},{"type":"text","text":"Go on"}]}`,
			c: `{"role":"user","content":"Hi"},{"role":"assistant","content":"Look","tool_calls":[{"id":"t1",` +
				`"type":"function","function":{"name":"f","arguments":"{\"z\":1.50,\"a\":\"x\"}"}},{"id":"t2","type":"function",` +
				`"function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"t1","content":"one"},{"role":"tool",` +
				`"tool_call_id":"t2","content":"two"},{"role":"user","content":"Go on"}`,
			r: `{"role":"user","content":"Hi"},{"type":"message","role":"assistant","content":[{"type":"output_text",` +
				`"text":"Look"}]},{"type":"function_call","call_id":"t1","name":"f","arguments":"{\"z\":1.50,\"a\":\"x\"}"},` +
				`{"type":"function_call","call_id":"t2","name":"f","arguments":"{}"},{"type":"function_call_output",` +
				`"call_id":"t1","output":"one"},{"type":"function_call_output","call_id":"t2","output":"two"},{"role":"user",` +
				`"content":"Go on"}`,
			g: `{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Look"},{"functionCall":{"name":"f",` +
				`"args":{"z":1.50,"a":"x"}}},{"functionCall":{"name":"f","args":{}}}]},{"role":"user",` +
				`"parts":[{"functionResponse":{"name":"f","response":{"output":"one"}}},{"functionResponse":{"name":"f",` +
				`"response":{"output":"two"}}},{"text":"Go on"}]}`,
			n: `{"type":"user_input","content":"Hi"},{"type":"model_output","content":[{"type":"text","text":"Look"}]},` +
				`{"type":"function_call","id":"t1","name":"f","arguments":{"z":1.50,"a":"x"}},{"type":"function_call","id":"t2",` +
				`"name":"f","arguments":{}},{"type":"function_result","call_id":"t1","result":"one"},{"type":"function_result",` +
				`"call_id":"t2","result":[{"type":"text","text":"two"}]},{"type":"user_input","content":"Go on"}`,
		}), parallelKept},
		{"failed result", talk(say{
			a: `{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f",` +
				`"input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"no","is_error":true}]}`,
			g: `{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"error":"no"}}}]}`,
			n: `{"type":"user_input","content":"Hi"},{"type":"function_call","id":"t1","name":"f","arguments":{}},` +
				`{"type":"function_result","call_id":"t1","is_error":true,"result":"no"}`,
		}), func(q *translate.Request) bool {
			return find(q, func(_ translate.Message, p translate.Part) bool {
				return p.Kind == translate.ResultPart &&
					p.Failed
			})
		}},
		{"image", asking(say{
			a: `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}}`,
			c: `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `"}}`,
			r: `{"type":"input_image","image_url":"data:image/png;base64,` + png + `"}`,
			g: `{"inlineData":{"mimeType":"image/png","data":"` + png + `"}}`,
			n: `{"type":"image","mime_type":"image/png","data":"` + png + `"}`,
		}), media("image/", png, "")},
		{"image by its URL", asking(say{
			a: `{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`,
			c: `{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`,
			r: `{"type":"input_image","image_url":"https://example.com/a.png"}`,
			g: `{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.png"}}`,
			n: `{"type":"image","uri":"https://example.com/a.png"}`,
		}), media("image/", "", "https://example.com/a.png")},
		{"image in a result", talk(say{
			a: `{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f",` +
				`"input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image",` +
				`"source":{"type":"base64","media_type":"image/png","data":"` + png + `"}}]}]}`,
			r: `{"role":"user","content":"Hi"},{"type":"function_call","call_id":"t1","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"t1","output":[{"type":"input_image","image_url":"data:image/png;base64,` + png + `"}]}`,
			g: `{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":""},` +
				`"parts":[{"inlineData":{"mimeType":"image/png","data":"` + png + `"}}]}}]}`,
			n: `{"type":"user_input","content":"Hi"},{"type":"function_call","id":"t1","name":"f","arguments":{}},` +
				`{"type":"function_result","call_id":"t1","result":[{"type":"image","mime_type":"image/png","data":"` +
				png + `"}]}`,
		}), media("image/", png, "")},
		{"PDF", asking(say{
			a: `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}`,
			c: `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}`,
			r: `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}`,
			g: `{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}}`,
			n: `{"type":"document","mime_type":"application/pdf","data":"JVBERi0="}`,
		}), media("application/pdf", "JVBERi0=", "")},
		{"PDF by its URL", asking(say{
			a: `{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}`,
			r: `{"type":"input_file","file_url":"https://example.com/a.pdf"}`,
			g: `{"fileData":{"mimeType":"application/pdf","fileUri":"https://example.com/a.pdf"}}`,
			n: `{"type":"document","uri":"https://example.com/a.pdf"}`,
		}), media("application/pdf", "", "https://example.com/a.pdf")},
		{"sound", asking(say{
			c: `{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}`,
			g: `{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}}`,
			n: `{"type":"audio","mime_type":"audio/wav","data":"UklGRg=="}`,
		}), media("audio/", "UklGRg==", "")},
		{"effort of thinking", with(say{
			a: `"thinking":{"type":"enabled","budget_tokens":8192}`, c: `"reasoning_effort":"medium"`,
			r: `"reasoning":{"effort":"medium"}`, g: `"generationConfig":{"thinkingConfig":{"thinkingBudget":8192}}`,
			n: `"generation_config":{"thinking_level":"medium"}`,
		}), func(q *translate.Request) bool {
			return q.Reasoning.AsEffort() == "medium" || q.Reasoning.AsBudget() == 8192
		}},
		{"text of earlier thinking", talk(say{
			a: `{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm",` +
				`"signature":"c2ln"},{"type":"text","text":"Yes"}]},{"role":"user","content":"Go"}`,
			c: `{"role":"user","content":"Hi"},{"role":"assistant","reasoning_content":"Hm","content":"Yes"},{"role":"user",` +
				`"content":"Go"}`,
			r: `{"role":"user","content":"Hi"},{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],` +
				`"encrypted_content":"c2ln"},{"type":"message","role":"assistant","content":[{"type":"output_text",` +
				`"text":"Yes"}]},{"role":"user","content":"Go"}`,
			g: `{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Hm","thought":true},` +
				`{"text":"Yes"}]},{"role":"user","parts":[{"text":"Go"}]}`,
			n: `{"type":"user_input","content":"Hi"},{"type":"thought","signature":"c2ln","summary":[{"type":"text",` +
				`"text":"Hm"}]},{"type":"model_output","content":[{"type":"text","text":"Yes"}]},{"type":"user_input",` +
				`"content":"Go"}`,
		}), func(q *translate.Request) bool {
			return find(q, func(_ translate.Message, p translate.Part) bool {
				return p.Kind == translate.ThinkingPart && string(p.Text) == "Hm"
			})
		}},
		{"answer by a JSON schema", with(say{
			a: `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`,
			c: `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`,
			r: `"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`,
			g: `"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"}}`,
			n: `"response_format":{"type":"text","mime_type":"application/json","schema":{"type":"object"}}`,
		}), func(q *translate.Request) bool {
			return q.Output.Kind == "schema" && string(q.Output.Schema) == `{"type":"object"}`
		}},
		{"answer in any JSON", with(say{
			c: `"response_format":{"type":"json_object"}`, r: `"text":{"format":{"type":"json_object"}}`,
			g: `"generationConfig":{"responseMimeType":"application/json"}`,
			n: `"response_format":[{"type":"text","mime_type":"application/json"}]`,
		}), func(q *translate.Request) bool { return q.Output.Kind == "json" }},
		{
			"verbosity", with(say{c: `"verbosity":"low"`, r: `"text":{"verbosity":"low"}`}),
			param(translate.Verbosity, `"low"`),
		},
		{
			"ID of the user", with(say{a: `"metadata":{"user_id":"u1"}`, c: `"user":"u1"`, r: `"user":"u1"`}),
			param(translate.UserID, `"u1"`),
		},
		{
			"prompt_cache_key", with(say{c: `"prompt_cache_key":"k"`, r: `"prompt_cache_key":"k"`}),
			param(translate.CacheKey, `"k"`),
		},
		{"service tier", with(say{
			a: `"service_tier":"standard_only"`, c: `"service_tier":"default"`,
			r: `"service_tier":"default"`, n: `"service_tier":"standard"`,
		}), func(q *translate.Request) bool {
			return q.Params[translate.ServiceTier] != nil
		}},
		{"marker of the cache", asking(say{
			a: `{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}`,
			c: `{"type":"text","text":"Hi","prompt_cache_breakpoint":{"mode":"explicit"}}`,
			r: `{"type":"input_text","text":"Hi","prompt_cache_breakpoint":{"mode":"explicit"}}`,
		}), func(q *translate.Request) bool {
			return find(q, func(_ translate.Message, p translate.Part) bool { return p.Cache != nil })
		}},
		{"tool with free text", with(say{
			c: `"tools":[{"type":"custom","custom":{"name":"x","description":"d"}}]`,
			r: `"tools":[{"type":"custom","name":"x","description":"d"}]`,
		}), func(q *translate.Request) bool { return len(q.Tools) == 1 && q.Tools[0].Name == "x" }},
		{"tool in a namespace", with(say{
			r: `"tools":[{"type":"namespace","name":"crm","description":"d","tools":[` + responsesTool + `]}]`,
		}), func(q *translate.Request) bool { return len(q.Tools) == 1 && q.Tools[0].Name == "crm__f" }},
		{"deferred tool", with(say{
			a: `"tools":[` + anthropicTool + `,{"name":"late","defer_loading":true,"input_schema":{"type":"object"}}]`,
		}), func(q *translate.Request) bool { return len(q.Tools) == 1 && q.Tools[0].Name == "f" }},
		{"deferred tools behind the provider's search", with(say{
			a: `"tools":[{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"},{"name":"late",` +
				`"defer_loading":true,"input_schema":{"type":"object"}}]`,
		}), func(q *translate.Request) bool { return len(q.Tools) == 1 && q.Tools[0].Name == "late" }},
		{"tool of the provider among others", with(say{
			a: `"tools":[` + anthropicTool + `,{"type":"web_search_20250305","name":"web_search"}]`,
			r: `"tools":[` + responsesTool + `,{"type":"web_search"}]`,
			g: `"tools":[` + geminiTool + `,{"googleSearch":{}}]`,
			n: `"tools":[` + stepsTool + `,{"type":"google_search"}]`,
		}), func(q *translate.Request) bool { return len(q.Tools) == 2 }},
		{"tool of the provider alone", with(say{
			a: `"tools":[{"type":"web_search_20250305","name":"web_search"}]`,
			c: `"web_search_options":{}`,
			r: `"tools":[{"type":"web_search"}]`,
			g: `"tools":[{"googleSearch":{}}]`,
			n: `"tools":[{"type":"google_search"}]`,
		}), always},
		{"what the provider has stored", say{
			a: `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":[{"type":"document",` +
				`"source":{"type":"file","file_id":"file_1"}}]}]}`,
			c: `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file_1"}}]}]}`,
			r: `{"model":"m","previous_response_id":"resp_1","input":"Hi"}`,
			g: `{"cachedContent":"cachedContents/1","contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`,
			n: `{"model":"m","previous_interaction_id":"v1_a","input":"Hi"}`,
		}, always},
		{"conversation that the provider is to keep", say{
			a: strings.Replace(plainBody[a], "%s", `,"thread":{"type":"create"}`, 1),
			c: strings.Replace(plainBody[c], "%s", `,"store":true`, 1),
			r: strings.Replace(plainBody[r], "%s", `,"store":true`, 1),
			n: strings.Replace(plainBody[n], "%s", `,"store":true`, 1),
		}, never},
		{"going on with what it has kept", say{
			a: strings.Replace(plainBody[a], "%s", `,"thread":{"type":"continue","previous_message_id":"msg_1"}`, 1),
			r: strings.Replace(plainBody[r], "%s", `,"conversation":"conv_1"`, 1),
		}, always},
		{"reference to what it has kept", say{
			a: strings.Replace(plainBody[a], "%s", `,"container":"container_1"`, 1),
			c: `{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","audio":{"id":"audio_1"}},` +
				`{"role":"user","content":"Go"}]}`,
			r: `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"item_reference","id":"msg_1"}]}`,
		}, always},
		{"safety checks by the provider", say{
			a: strings.Replace(plainBody[a], "%s", `,"safeguards":[{"type":"auto_mode"}]`, 1),
		}, always},
		{"clearing of results and of thinking", say{
			a: strings.Replace(plainBody[a], "%s",
				`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"},`+
					`{"type":"clear_tool_uses_20250919"}]}`, 1),
		}, always}, // covered earlier, see the introduction
		{"clearing of anything else", say{
			a: strings.Replace(plainBody[a], "%s", `,"context_management":{"edits":[{"type":"clear_images"}]}`, 1),
		}, never},
		{"compaction by the provider", say{
			a: strings.Replace(plainBody[a], "%s", `,"context_management":{"edits":[{"type":"compact_20260112"}]}`, 1),
			r: strings.Replace(plainBody[r], "%s", `,"context_management":[{"type":"compaction","compact_threshold":100000}]`,
				1),
		}, always},
		{"compaction at once", say{
			a: strings.Replace(plainBody[a], "%s", `,"compaction":{"type":"summarize"}`, 1),
			r: `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"compaction_trigger"}]}`,
		}, always},
		{"compacted history", say{
			a: `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"Hi"},{"role":"assistant",` +
				`"content":[{"type":"compaction","content":"S","signature":"x"}]},{"role":"user","content":"Go"}]}`,
			r: `{"model":"m","input":[{"type":"compaction","encrypted_content":"x"},{"role":"user","content":"Go"}]}`,
		}, always},
		{"answer in the background", say{
			r: strings.Replace(plainBody[r], "%s", `,"background":true`, 1),
			n: strings.Replace(plainBody[n], "%s", `,"background":true`, 1),
		}, always},
		{"agent of the provider", say{
			n: `{"agent":"deep-research-preview","input":"Hi"}`,
		}, always},
		{"answer to be resumed", say{
			n: strings.Replace(plainBody[n], "%s", `,"continuation_token":"t"`, 1),
		}, always},
	}
}

func never(*translate.Request) bool { return false }

// parallelKept reports whether the output has both calls and results in order.
func parallelKept(q *translate.Request) bool {
	var seen []string
	for _, m := range q.Messages {
		for _, p := range m.Parts {
			switch p.Kind {
			case translate.CallPart:
				seen = append(seen, p.ID+" "+string(p.Input))
			case translate.ResultPart:
				seen = append(seen, p.ID+" "+translate.Joined(p.Content).Decoded())
			}
		}
	}
	if len(seen) != 4 {
		return false
	}
	first, _, _ := strings.Cut(seen[0], " ")
	second, _, _ := strings.Cut(seen[1], " ")
	return first != second && seen[0] == first+` {"z":1.50,"a":"x"}` && seen[1] == second+" {}" && seen[2] == first+
		" one" && seen[3] == second+" two"
}
