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

package toolcall

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Describe names a call by its tool and its most telling argument.
func Describe(v *wire.View, call *wire.Block) string {
	name := v.Text(call.Name)
	if a := Argument(Input(v.Bytes(call.Body))); a != "" {
		return name + " " + content.Clip(strings.Join(strings.Fields(a), " "), 120)
	}
	return name
}

// arguments are the members of tool inputs that say what a call was about, the
// most telling first.
var arguments = []string{"file_path", "filePath", "absolute_path", "notebook_path", "path", "dir_path", "filename", "url", "command", "cmd", "pattern", "query"}

// Argument returns the most telling argument of a call.
func Argument(input gjson.Result) string {
	input = freeText(Decoded(input))
	if _, file := patchIn(input); file != "" {
		return file
	}
	if input.Type == gjson.String {
		if commands := CommandsIn(input.Str); len(commands) > 0 {
			return strings.Join(commands, "\n")
		}
		return input.Str
	}
	for _, name := range arguments {
		switch v := input.Get(name); {
		case v.Type == gjson.String:
			return v.Str
		case v.IsArray():
			return ShellLine(v)
		}
	}
	return ""
}
