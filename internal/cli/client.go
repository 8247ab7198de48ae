// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// StatusClient is the used part of the input that Claude Code passes to the command of its status line. Versions
// before 2.1.251 pass no prompt_cache, nor does any version before the first request.
type StatusClient struct {
	// SessionID is the conversation's id, as in the client's requests.
	SessionID string `json:"session_id"`
	// PromptCache is the client's knowledge of its cache.
	PromptCache *PromptCache `json:"prompt_cache"`
}

// PromptCache is the state of a client's cache.
type PromptCache struct {
	// Warm reports whether the cache was warm when the line was requested.
	Warm bool `json:"warm"`
	// ExpiresAt is the expiry in Unix seconds, nil if unknown.
	ExpiresAt *float64 `json:"expires_at"`
	// HitRatio is the share of the prompts that was read from the cache, 0 to 1, nil before the
	// first response.
	HitRatio *float64 `json:"hit_ratio"`
	// LastMissCause is the cause of the last cache miss.
	LastMissCause StatusCauses `json:"last_miss_cause"`
}

// StatusCauses are the causes of a cache miss, in words.
type StatusCauses string

// UnmarshalJSON accepts a name, or an object with a list of names.
func (c *StatusCauses) UnmarshalJSON(raw []byte) error {
	said := gjson.ParseBytes(raw)
	if said.IsObject() {
		said = said.Get("causes")
	}
	var all []string
	for _, cause := range said.Array() {
		if cause.Type == gjson.String && cause.Str != "" {
			all = append(all, strings.ReplaceAll(cause.Str, "_", " "))
		}
	}
	*c = StatusCauses(strings.Join(all, ", "))
	return nil
}

const (
	// maxInput bounds a client's input, in bytes.
	maxInput = 1 << 20
	// inputPatience bounds the wait for the input.
	inputPatience = 200 * time.Millisecond
)

// passed reads a client's input. It returns nil without a usable one.
func passed(in io.Reader) *StatusClient {
	if f, ok := in.(*os.File); ok {
		// A terminal passes nothing.
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil
		}
	}
	got := make(chan *StatusClient, 1)
	go func() {
		c := new(StatusClient)
		err := json.NewDecoder(io.LimitReader(in, maxInput)).Decode(c)
		// Another version may use other types for some members. The rest is still usable.
		if _, odd := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !(odd && c.SessionID != "") {
			c = nil
		}
		got <- c
	}()
	select {
	case c := <-got:
		return c
	// A pipe may stay open without any input.
	case <-time.After(inputPatience):
		return nil
	}
}

func (c *PromptCache) tell(now time.Time) string {
	cache := "cold"
	switch {
	case c.Warm && c.ExpiresAt != nil && *c.ExpiresAt > 0:
		cache = remaining(time.Unix(int64(*c.ExpiresAt), 0).Sub(now))
	case c.Warm:
		cache = "warm"
	}
	out := []string{"cache " + cache}
	if c.HitRatio != nil {
		out = append(out, fmt.Sprintf("read %.0f %%", 100**c.HitRatio))
	}
	if c.LastMissCause != "" {
		out = append(out, "last miss: "+string(c.LastMissCause))
	}
	return strings.Join(out, " · ")
}
