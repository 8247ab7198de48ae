// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package answers has recorded upstream responses for tests.
package answers

import (
	"embed"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

//go:embed testdata
var files embed.FS

// Answer is a response of an upstream.
type Answer struct {
	Name   string
	Format wire.Format
	Stream bool // server-sent events
	Data   []byte
}

// formats are the formats by prefixes of file names.
var formats = []struct {
	prefix string
	format wire.Format
}{
	{"anthropic_", wire.Anthropic},
	{"responses_", wire.OpenAIResponses},
	{"openai_", wire.OpenAIChat},
	{"gemini_", wire.Gemini},
	{"interactions_", wire.Interactions},
}

// All returns the responses, ordered by name.
func All(tb testing.TB) []Answer {
	tb.Helper()
	entries, err := files.ReadDir("testdata")
	if err != nil {
		tb.Fatal(err)
	}
	all := make([]Answer, 0, len(entries))
	for _, e := range entries {
		a := Answer{Name: e.Name(), Stream: strings.HasSuffix(e.Name(), ".sse")}
		for _, f := range formats {
			if a.Format == "" && strings.HasPrefix(a.Name, f.prefix) {
				a.Format = f.format
			}
		}
		if a.Format == "" {
			tb.Fatalf("whose answer is %s?", a.Name)
		}
		if a.Data, err = files.ReadFile("testdata/" + a.Name); err != nil {
			tb.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// Streams returns the streamed responses.
func Streams(tb testing.TB) []Answer {
	tb.Helper()
	var streams []Answer
	for _, a := range All(tb) {
		if a.Stream {
			streams = append(streams, a)
		}
	}
	return streams
}
