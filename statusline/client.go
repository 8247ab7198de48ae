// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package statusline

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Client is what Claude Code passes to the command of its status line, as far as it is
// needed here. Versions before 2.1.251 pass no prompt_cache, and none do before a
// first request.
type Client struct {
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
	ExpiresAt *int64 `json:"expires_at"`
	// HitRatio is the share of the prompts that was read from it, 0 to 1; nil before an
	// answer has told.
	HitRatio *float64 `json:"hit_ratio"`
	// LastMissCause is why it last held less than expected.
	LastMissCause *string `json:"last_miss_cause"`
}

const (
	// longestInput bounds what is read of a client's input.
	longestInput = 1 << 20
	// inputPatience is how long it may take to come.
	inputPatience = 200 * time.Millisecond
)

// passed reads what a client passes, nil if nothing is: from a terminal, from a pipe that
// stays open, or of another client.
func passed(in io.Reader) *Client {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil
		}
	}
	got := make(chan *Client, 1)
	go func() {
		c := new(Client)
		if json.NewDecoder(io.LimitReader(in, longestInput)).Decode(c) != nil {
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
	case c.Warm && c.ExpiresAt != nil:
		cache = remaining(time.Unix(*c.ExpiresAt, 0).Sub(now))
	case c.Warm:
		cache = "warm"
	}
	out := []string{"cache " + cache}
	if c.HitRatio != nil {
		out = append(out, fmt.Sprintf("read %.0f %%", 100**c.HitRatio))
	}
	if c.LastMissCause != nil && *c.LastMissCause != "" {
		out = append(out, "last miss: "+strings.ReplaceAll(*c.LastMissCause, "_", " "))
	}
	return strings.Join(out, " · ")
}
