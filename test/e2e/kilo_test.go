// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

// kilo is Kilo's command line, which is based on opencode and shares its settings, commands and
// tools.
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
	for _, what := range []string{
		"AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "SESSION_INGEST",
		"CODEBASE_INDEXING", "PRESENCE",
	} {
		env = append(env, "KILO_DISABLE_"+what+"=1")
	}
	return args, append(env, "KILO_TELEMETRY_LEVEL=off")
}
