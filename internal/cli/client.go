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

// StatusClient is what Claude Code passes to the command of its status line, as far as it is
// needed here. Versions before 2.1.251 pass no prompt_cache, and none do before a
// first request.
type StatusClient struct {
	// SessionID names the conversation, as the client's requests do.
	SessionID string `json:"session_id"`
	// PromptCache is what the client has seen of its cache.
	PromptCache *PromptCache `json:"prompt_cache"`
}

// PromptCache is how a client's cache fares.
type PromptCache struct {
	// Warm reports whether the cache held when the line was asked for.
	Warm bool `json:"warm"`
	// ExpiresAt is when it ends, in Unix seconds; nil where that is not known.
	ExpiresAt *float64 `json:"expires_at"`
	// HitRatio is the share of the prompts that was read from it, 0 to 1; nil before an
	// answer has told.
	HitRatio *float64 `json:"hit_ratio"`
	// LastMissCause is why it last held less than expected.
	LastMissCause StatusCauses `json:"last_miss_cause"`
}

// StatusCauses are why a cache held less than expected, in words.
type StatusCauses string

// UnmarshalJSON takes a name, or an object with a list of them.
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
	// longestInput bounds what is read of a client's input.
	longestInput = 1 << 20
	// inputPatience is how long it may take to come.
	inputPatience = 200 * time.Millisecond
)

// passed reads what a client passes, nil if nothing is: from a terminal, from a pipe that
// stays open, or of another client.
func passed(in io.Reader) *StatusClient {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil
		}
	}
	got := make(chan *StatusClient, 1)
	go func() {
		c := new(StatusClient)
		err := json.NewDecoder(io.LimitReader(in, longestInput)).Decode(c)
		// What another version says in another way is passed over, and all else read.
		if _, odd := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !(odd && c.SessionID != "") {
			c = nil
		}
		got <- c
	}()
	select {
	case c := <-got:
		return c
	case <-time.After(inputPatience):
		return nil
	}
}

// tell says how the cache fares by what the client knows, which is nothing of savings.
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
