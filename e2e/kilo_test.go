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

package e2e

// kilo is Kilo's command line, which is made from opencode: its settings, its
// commands and its tools are opencode's.
type kilo struct{ opencode }

func (c kilo) executable() (name, variable string) { return "kilo", "LLM_CACHE_KILO" }

func (c kilo) files() map[string]string {
	for _, text := range c.opencode.files() {
		return map[string]string{".config/kilo/kilo.json": text}
	}
	return nil
}

func (c kilo) command(home, prompt string, further bool) (args, env []string) {
	args, env = c.opencode.command(home, prompt, further)
	args = append([]string{"run", "--auto"}, args[1:]...)
	for _, what := range []string{"AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "SESSION_INGEST", "CODEBASE_INDEXING", "PRESENCE"} {
		env = append(env, "KILO_DISABLE_"+what+"=1")
	}
	return args, append(env, "KILO_TELEMETRY_LEVEL=off")
}
