"""``renet setup``: from a bare machine to published GPUs, in steps that change only what differs.

``steps`` runs them (planned, shown or applied one after another), ``changes`` is what they may do to a
machine, and each of the others is one step: ``toolkit``, ``nvidia_spec``, ``refresh``, ``rediacc_specs``,
``keep_current``, ``persistence``, ``record``.
"""
