// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"bytes"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/answers"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// FuzzStream: for any upstream bytes and any cuts, the output is well-formed, in the order of the
// client's format, independent of the cuts, and only ends if the upstream's answer did.
func FuzzStream(f *testing.F) {
	for _, a := range answers.All(f) {
		for i, from := range translate.Formats() {
			if from == a.Format {
				f.Add(a.Data, uint8(i), uint8(i+1), uint16(len(a.Data)/2), true, false)
				f.Add(a.Data, uint8(i), uint8(i+2), uint16(7), a.Stream, true)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, from, to uint8, cut uint16, stream, buffer bool) {
		source, client := translate.Formats()[int(from)%len(translate.Formats())],
			translate.Formats()[int(to)%len(translate.Formats())]
		asked := translate.Answering{Stream: stream, Usage: cut%2 == 0, BufferCalls: buffer, Seed: seed}
		if cut%5 == 0 {
			asked.Stop = []string{"Done", "\n\n"}
		}
		whole, s := run(source, client, asked, data)
		if err := wellFormedOutput(client, stream, whole); err != nil {
			t.Fatalf("%v in\n%s", err, whole)
		}
		at := min(int(cut), len(data))
		if cutOut, _ := run(source, client, asked, data, at); !bytes.Equal(cutOut, whole) {
			t.Fatalf("cut at %d:\n%s\nwant\n%s", at, cutOut, whole)
		}
		turn := decoded(client, stream, whole)
		if turn.Done && !s.Ended() {
			t.Fatalf("an answer without an end got one:\n%s", whole)
		}
		if s.Failure() != nil {
			if _, body := s.Failure().Write(client); wellFormedOutput(client, false, body) != nil {
				t.Fatalf("error %q", body)
			}
		}
	})
}

// FuzzFailure: for any error body, the client gets an error of its own format.
func FuzzFailure(f *testing.F) {
	for _, a := range answers.All(f) {
		if !a.Stream {
			f.Add(a.Data, uint8(0), uint8(1), 400)
		}
	}
	f.Add([]byte("<html>"), uint8(1), uint8(0), 502)
	f.Add([]byte(`[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"34.5s"}]}}]`), uint8(3), uint8(0), 429)
	f.Fuzz(func(t *testing.T, data []byte, from, to uint8, status int) {
		source, client := translate.Formats()[int(from)%len(translate.Formats())],
			translate.Formats()[int(to)%len(translate.Formats())]
		got, body := translate.ReadFailure(source, status, data).Write(client)
		if got < 400 || got > 599 {
			t.Fatalf("status %d", got)
		}
		turn := decoded(client, false, body)
		if !turn.Failed() || turn.ErrorMessage == "" {
			t.Fatalf("%+v of %s", turn, body)
		}
	})
}

// FuzzSealed: no client string opens as a seal that was not made here.
func FuzzSealed(f *testing.F) {
	f.Add("call_1", "CgYIAB+/")
	f.Add(wire.SealPrefix, "")
	f.Fuzz(func(t *testing.T, id, signature string) {
		if gotID, gotSignature := seal.OpenID(seal.ID(id, signature)); signature != "" &&
			(gotID != id || gotSignature != signature) {
			t.Fatalf("%q, %q came back as %q, %q", id, signature, gotID, gotSignature)
		}
		if s, ok := seal.Open(id); ok {
			if again, ok := seal.Open(s.Seal()); !ok || again != s {
				t.Fatalf("%+v came back as %+v", s, again)
			}
		}
	})
}

// BenchmarkStream measures a stream of consecutive text, thinking or call deltas, event by event
// like from a connection.
func BenchmarkStream(b *testing.B) {
	for _, a := range answers.All(b) {
		switch a.Name {
		case "anthropic_thinking.sse", "openai_llama_server.sse", "responses_tools.sse", "gemini_calls.sse":
		default:
			continue
		}
		events := bytes.SplitAfter(a.Data, []byte("\n\n"))
		middle := deltas(events)
		for _, to := range translate.Formats() {
			b.Run(string(a.Format)+"_to_"+string(to), func(b *testing.B) {
				s := translate.NewStream(a.Format, to, &translate.Answering{Stream: true, Usage: true})
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if i%10000 == 0 { // writers of whole items keep their content
						b.StopTimer()
						s = translate.NewStream(a.Format, to, &translate.Answering{Stream: true, Usage: true})
						for _, e := range events[:middle] {
							s.Feed(e)
						}
						b.StartTimer()
					}
					s.Feed(events[middle])
					i++
				}
			})
		}
	}
}

// deltas returns the index of an event that adds to a block.
func deltas(events [][]byte) int {
	for i, e := range events {
		for _, mark := range []string{
			"text_delta", `"content":"`, "output_text.delta", "arguments.delta", `"text"`,
			"thinking_delta",
		} {
			if i > 1 && bytes.Contains(e, []byte(mark)) {
				return i
			}
		}
	}
	return len(events) / 2
}
