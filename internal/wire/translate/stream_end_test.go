// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/golden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestCutStreams: a stream that breaks off, between two events or within one, has not ended, even
// after a stop reason. Without the blank line after its last event it has.
func TestCutStreams(t *testing.T) {
	golden.Run(t, "testdata/answers/unmarked_end", func(t *testing.T, sections []golden.Section) {
		for _, in := range sections {
			if in.Kind != "stream" {
				continue
			}
			for _, client := range translate.Formats() {
				for _, stream := range []bool{true, false} {
					asked := translate.Answering{Stream: stream, Usage: true, Seed: seed}
					upstream, trimmed := wire.Format(in.Args[0]), strings.TrimRight(in.Text, "\n")
					want, _ := run(upstream, client, asked, []byte(in.Text))
					if got, _ := run(upstream, client, asked, []byte(trimmed)); !bytes.Equal(got, want) {
						t.Errorf("%s, stream %t, without a blank line at the end:\n%s\nwant\n%s", client, stream, got, want)
					}
					for form, data := range map[string]string{"half an event": in.Text + `data: {"id":"m1","ch`, "cut": trimmed} {
						s := translate.NewStream(upstream, client, &asked)
						out := bytes.Clone(s.Feed([]byte(data)))
						out = append(out, s.Close(form == "cut")...)
						if err := wellFormedOutput(client, stream, out); err != nil {
							t.Errorf("%s, stream %t, %s: %v in\n%s", client, stream, form, err, out)
						}
						if turn := decoded(client, stream, out); s.Ended() || turn.Done || turn.Failed() || !stream && len(out) > 0 {
							t.Errorf("%s, stream %t, %s: ended %t, %+v of\n%s", client, stream, form, s.Ended(), turn, out)
						}
					}
				}
			}
		}
	})
}

// TestUnmarkedCalls: the client gets the calls, too.
func TestUnmarkedCalls(t *testing.T) {
	for _, upstream := range []wire.Format{wire.OpenAIChat, wire.Anthropic} {
		all, _ := thinkingAndCalls(t, upstream)
		end := strings.LastIndex(strings.TrimSpace(all), "\n\n") + 2
		for _, client := range translate.Formats() {
			for _, buffer := range []bool{false, true} {
				asked := translate.Answering{Stream: true, Usage: true, Seed: seed, BufferCalls: buffer}
				out, s := run(upstream, client, asked, []byte(all[:end]))
				want, _ := run(upstream, client, asked, []byte(all))
				if !s.Ended() || string(out) != string(want) {
					t.Errorf("%s to %s, ended %t:\n%s\nwant\n%s", upstream, client, s.Ended(), out, want)
				}
			}
		}
	}
}
