// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/golden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// feature is an option or content of a request, with a check of the output. Its form in each format
// stands in testdata/features. A format without a section does not support the feature.
type feature struct {
	name string
	kept func(q *translate.Request) bool
}

// featureFile turns the name of a feature into that of its file.
var featureFile = strings.NewReplacer(" ", "_", ",", "", "'", "")

// bodies returns the requests with a feature.
func (f feature) bodies(tb testing.TB) map[wire.Format]string {
	tb.Helper()
	out := map[wire.Format]string{}
	for _, s := range golden.Read(tb, "testdata/features/"+strings.ToLower(featureFile.Replace(f.name))+".txtar") {
		out[wire.Format(s.Args[0])] = golden.Compact(s.Text)
	}
	return out
}

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

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
var features = []feature{
	{"text", func(q *translate.Request) bool {
		return find(q, func(m translate.Message, p translate.Part) bool {
			return m.Role == translate.User && string(p.Text) == "Hi"
		})
	}},
	{"streamed answer", func(q *translate.Request) bool { return q.Stream }},
	{"system prompt", kind},
	{"system message in the middle", func(q *translate.Request) bool {
		return find(q, func(m translate.Message, p translate.Part) bool {
			return m.Role != translate.Assistant && strings.Contains(p.Text.Decoded(), "Now hurry")
		})
	}},
	{"system prompt and nothing else", kind},
	{"conversation that the model begins", func(q *translate.Request) bool {
		return find(q, func(m translate.Message, p translate.Part) bool {
			return m.Role == translate.Assistant && string(p.Text) == "Hello"
		})
	}},
	{"no answer, only the cache filled", param(translate.MaxTokens, "1")},
	{"maximal length", param(translate.MaxTokens, "100")},
	{"temperature", param(translate.Temperature, "0.5")},
	{"top_p", param(translate.TopP, "0.5")},
	{"top_k", param(translate.TopK, "5")},
	{"seed", param(translate.Seed, "7")},
	{"penalties", param(translate.PresencePenalty, "0.5")},
	{"stop sequences", func(q *translate.Request) bool { return len(q.Stop) == 1 && string(q.Stop[0]) == "END" }},
	{"several answers", always},
	{"log probabilities", always},
	{"tools", func(q *translate.Request) bool {
		return len(q.Tools) == 1 && q.Tools[0].Name == "f" &&
			string(q.Tools[0].Schema) == `{"type":"object","properties":{"z":{"type":"number"},"a":{"type":"string"}}}`
	}},
	{"strict tools", func(q *translate.Request) bool { return len(q.Tools) == 1 && q.Tools[0].Strict.IsTrue() }},
	{"a tool must be called", func(q *translate.Request) bool { return q.Choice.Mode == "any" }},
	{"this tool must be called", func(q *translate.Request) bool {
		return q.Choice.Mode == "any" && len(q.Choice.Tools) == 1 && q.Choice.Tools[0].Name == "f"
	}},
	{"no tool may be called", func(q *translate.Request) bool { return q.Choice.Mode == "none" }},
	{"one call at a time", func(q *translate.Request) bool { return q.Choice.Single }},
	{"parallel calls and their results", parallelKept},
	{"failed result", func(q *translate.Request) bool {
		return find(q, func(_ translate.Message, p translate.Part) bool {
			return p.Kind == translate.ResultPart && p.Failed
		})
	}},
	{"image", media("image/", png, "")},
	{"image by its URL", media("image/", "", "https://example.com/a.png")},
	{"image in a result", media("image/", png, "")},
	{"PDF", media("application/pdf", "JVBERi0=", "")},
	{"PDF by its URL", media("application/pdf", "", "https://example.com/a.pdf")},
	{"sound", media("audio/", "UklGRg==", "")},
	{"effort of thinking", func(q *translate.Request) bool {
		return q.Reasoning.AsEffort() == "medium" || q.Reasoning.AsBudget() == 8192
	}},
	{"text of earlier thinking", func(q *translate.Request) bool {
		return find(q, func(_ translate.Message, p translate.Part) bool {
			return p.Kind == translate.ThinkingPart && string(p.Text) == "Hm"
		})
	}},
	{"answer by a JSON schema", func(q *translate.Request) bool {
		return q.Output.Kind == "schema" && string(q.Output.Schema) == `{"type":"object"}`
	}},
	{"answer in any JSON", func(q *translate.Request) bool { return q.Output.Kind == "json" }},
	{"verbosity", param(translate.Verbosity, `"low"`)},
	{"ID of the user", param(translate.UserID, `"u1"`)},
	{"prompt_cache_key", param(translate.CacheKey, `"k"`)},
	{"service tier", func(q *translate.Request) bool { return q.Params[translate.ServiceTier] != nil }},
	{"marker of the cache", func(q *translate.Request) bool {
		return find(q, func(_ translate.Message, p translate.Part) bool { return p.Cache != nil })
	}},
	{"tool with free text", onlyTool("x")},
	{"tool in a namespace", onlyTool("crm__f")},
	{"deferred tool", onlyTool("f")},
	{"deferred tools behind the provider's search", onlyTool("late")},
	{"tool of the provider among others", func(q *translate.Request) bool { return len(q.Tools) == 2 }},
	{"tool of the provider alone", always},
	{"object stored at the provider", always},
	{"conversation that the provider is to keep", never},
	{"continuation of a stored conversation", always},
	{"reference to a stored object", always},
	{"safety checks by the provider", always},
	{"clearing of results and of thinking", always}, // done before the translation
	{"clearing of anything else", never},
	{"compaction by the provider", always},
	{"compaction at once", always},
	{"compacted history", always},
	{"answer in the background", always},
	{"agent of the provider", always},
	{"answer to be resumed", always},
}

func kind(q *translate.Request) bool { return string(translate.Joined(q.System)) == "Be kind" }

func onlyTool(name string) func(*translate.Request) bool {
	return func(q *translate.Request) bool { return len(q.Tools) == 1 && q.Tools[0].Name == name }
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
