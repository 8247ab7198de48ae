// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package extend_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/extend"
)

func init() { caddy.RegisterModule(LongWords{}) }

var _ extend.Compressor = LongWords{}

// LongWords keeps the longest words of a text.
type LongWords struct{}

// CaddyModule returns the Caddy module information.
func (LongWords) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.compressors.long_words", New: func() caddy.Module { return new(LongWords) }}
}

// Compress implements extend.Compressor.
func (LongWords) Compress(_ context.Context, text string, rate float64) (extend.Compressed, error) {
	words := strings.Fields(text)
	out := extend.Compressed{Before: len(words)}
	for length := longest(words); length > 0; length-- {
		var kept []string
		for _, w := range words {
			if len(w) >= length {
				kept = append(kept, w)
			}
		}
		if out.Text, out.After = strings.Join(kept, " "), len(kept); float64(len(kept)) >= rate*float64(len(words)) {
			break
		}
	}
	return out, nil
}

// Health implements extend.Compressor.
func (LongWords) Health(context.Context) extend.CompressorHealth {
	return extend.CompressorHealth{Device: "CPU"}
}

func longest(words []string) (length int) {
	for _, w := range words {
		length = max(length, len(w))
	}
	return length
}

// A Caddyfile names a compressor under compress: compressor long_words.
func ExampleCompressor() {
	out, err := LongWords{}.Compress(context.Background(), "the tests of the parser fail on an empty line", 0.5)
	fmt.Println(out.Text, err)
	// Output: tests parser fail empty line <nil>
}
