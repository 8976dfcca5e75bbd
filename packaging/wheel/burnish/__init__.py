"""burnish fine-tunes large diffusion models. The program is native; this package starts it beside the torch of this Python."""
