"""Scripts that know only NumPy as BSP programs: `bsprun -p 8 --numpy script.py`."""
